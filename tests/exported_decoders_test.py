"""Language models as exporters write them, in loops around them: their texts and logits (tests/lm/make.py writes them).

Both exporters of PyTorch, caches that grow and of a fixed extent, a loop inside of the model, the operators of
onnxruntime-genai's builder with floats and with weights of 4 bits. Each native and portable, behind prompts of three
lengths, through caches of up to 200 tokens.
"""

import os
import shutil

import numpy as np

import language_models_test
import relayvm
from lm import weights

PLACES = (1, 63, 64, 65, 200)
PROMPTS, COMPLETION = (1, 5, 9), 24
LAYERS, HEADS, HEAD, ROOM, VOCABULARY, STOP = 2, 4, 16, 256, 96, 2
# All levels of both with --long.
TARGETS = [["--target", target, f"-O{level}"] for target, levels in (("host", relayvm.long_or((0, 1, 2, 3), (2,))),
                                                                     ("portable", relayvm.long_or((0, 1, 2, 3), (0,))))
           for level in levels]

# READ has %cache and %tokens and gives the next cache and logits; the loops are the same for all models.
PROGRAM = """import "model.onnx" as @model;
def @read(%cache: CACHE, %tokens: Tensor[(t), int64]) -> (CACHE, Tensor[(96), float32]) {
READ
}
def @last_row(%logits: Tensor[(1, t, 96), float32]) -> Tensor[(96), float32] {
  reshape(strided_slice(%logits, begin=[-1], end=[9223372036854775807], strides=[1], axes=[1]), newshape=[-1])
}
def @step(%cache: CACHE, %token: int32) -> (CACHE, Tensor[(96), float32]) {
  @read(%cache, expand_dims(cast(%token, dtype="int64"), axis=0))
}
def @text(%prompt: Tensor[(p), int64], %limit: int32) -> List[int32] {
  let (%cache, %logits) = @read(START, %prompt);
  @greedy(@step, %cache, %logits, [2], %limit)
}
// The logits behind the first tokens, and behind each that follows, the last first.
def @rows(%tokens: Tensor[(n), int64], %first: int32) -> List[Tensor[(96), float32]] {
  let (%cache, %logits) = @read(START, take(%tokens, arange(0, %first, 1)));
  @rows_from(%tokens, %first, %cache, Cons(%logits, Nil))
}
def @rows_from(%tokens: Tensor[(n), int64], %at: int32, %cache: CACHE, %rows: List[Tensor[(96), float32]])
    -> List[Tensor[(96), float32]] {
  if (cast(%at, dtype="int64") == extent(%tokens, axis=0)) { %rows } else {
    let (%next, %logits) = @step(%cache, cast(take(%tokens, %at), dtype="int32"));
    @rows_from(%tokens, %at + 1, %next, Cons(%logits, %rows))
  }
}
"""


def tuple_of(text, count=2 * LAYERS):
    return "(" + ", ".join([text] * count) + ")"


def fields(name, first, count=2 * LAYERS):
    return ", ".join(f"%{name}.{i}" for i in range(first, first + count))


def caches(extent, heads):
    return tuple_of(f"Tensor[(1, {heads}, {extent}, {HEAD}), float32]")


def zeros(extent, heads):
    return tuple_of(f'zeros(shape=[1, {heads}, {extent}, {HEAD}], dtype="float32")')


def grown(heads, call, before=""):
    """A step whose caches grow."""
    return {"CACHE": caches("?", heads), "START": zeros(0, heads), "READ": f"""{before}  let %r = {call};
  (({fields("r", 1)}), @last_row(%r.0))"""}


def plain(heads):
    return grown(heads, f"@model(expand_dims(%tokens, axis=0), {fields('cache', 0)})")


BUILDER = grown(2, f"@model(expand_dims(%tokens, axis=0), %ones, {fields('cache', 0)})", """
  let %count = extent(%cache.0, axis=2) + extent(%tokens, axis=0);
  let %ones = expand_dims(arange(0i64, %count, 1i64) * 0i64 + 1i64, axis=0);
""")
FIXED = {"CACHE": f"(int64, {caches(ROOM, 2)})", "START": f"(0i64, {zeros(ROOM, 2)})", "READ": f"""
  let (%past, %own) = %cache;
  let %count = extent(%tokens, axis=0);
  let %r = @model(expand_dims(%tokens, axis=0), arange(0i64, %count, 1i64) + %past, {fields("own", 0)});
  ((%past + %count, ({fields("r", 1)})), @last_row(%r.0))"""}


class ExportedDecoders(language_models_test.Case):
    def place(self, model, name):
        """Makes the model a file of that name, with its weights beside it."""
        shutil.copy(os.path.join(weights.HERE, f"{model}.onnx"), self.path(name))
        weights.write(model, self.path(f"{model}.bin"))

    def given(self, family):
        with np.load(os.path.join(weights.HERE, f"{family}.npz")) as file:
            return dict(file)

    def texts(self, expected):
        return {prompt: [token for token in expected[f"text{prompt}"].tolist() if token != STOP] for prompt in PROMPTS}

    def check(self, family, model, parts):
        expected = self.given(family)
        self.place(model, "model.onnx")
        text = PROGRAM
        for key, part in parts.items():
            text = text.replace(key, part)
        with open(self.path("main.relay"), "w", encoding="utf-8") as file:
            file.write(text)
        tokens = expected["tokens"]
        for options in TARGETS:
            with self.subTest(model, options=options):
                program = self.load(self.path("main.relay"), "--entry", "text", "--entry", "rows", *options)
                for prompt, text in self.texts(expected).items():
                    got = program["text"](tokens[:prompt], COMPLETION)
                    self.assertEqual([int(token) for token in got], text)
                for first in PROMPTS:
                    rows = list(program["rows"](tokens, first))[::-1]
                    self.assertEqual(len(rows), len(tokens) - first + 1)
                    for place, row in zip(PLACES, expected["logits"]):
                        if place >= first:
                            np.testing.assert_allclose(rows[place - first], row, rtol=1e-4, atol=5e-4)

    def test_llama(self):
        self.check("llama", "llama_dynamo", plain(2))

    def test_llama_of_the_other_exporter(self):
        self.check("llama", "llama_script", plain(2))

    def test_caches_of_a_fixed_extent(self):
        self.check("llama", "llama_fixed", FIXED)

    def test_builder(self):
        self.check("llama", "llama_builder", BUILDER)

    def test_builder_of_4_bits(self):
        self.check("llama_builder_int4", "llama_builder_int4", BUILDER)

    def test_gpt2(self):
        self.check("gpt2", "gpt2_dynamo", plain(HEADS))

    def test_gpt2_of_the_other_exporter(self):
        self.check("gpt2", "gpt2_script", plain(HEADS))

    def test_a_loop_inside(self):
        """The model is the loop: its texts have the token that ends them."""
        expected = self.given("llama")
        self.place("llama_loop", "model.onnx")
        for options in TARGETS:
            with self.subTest(options=options):
                model = self.load(self.path("model.onnx"), *options)
                for prompt in PROMPTS:
                    got = model(expected["tokens"][None, :prompt], COMPLETION)
                    self.assertEqual(got[:, 0].tolist(), expected[f"text{prompt}"].tolist())
