"""Language models as exporters write them, in loops around them: their texts and logits (tests/lm/make.py writes them).

Both exporters of PyTorch to ONNX and .pt2 files, caches that grow and of a fixed extent, a loop inside of the model, the
operators of onnxruntime-genai's builder with floats and with weights of 4 bits, decoders that attend to a source. Native and
portable, behind prompts of three lengths, through caches of up to 200 tokens; greedily and by beams.
"""

import itertools
import os

import numpy as np

import language_models_test
import relayvm
from lm import weights

PLACES = (1, 63, 64, 65, 200)
PROMPTS, COMPLETION = (1, 5, 9), 24
LAYERS, HEADS, HEAD, ROOM, STOP = 2, 4, 16, 256, 2
# width, penalty, early
BEAMS = ((2, 0.0, False), (2, 1.0, True), (3, 0.6, False), (3, 2.0, True), (4, 1.0, False), (4, 1.0, True), (4, 0.6, False),
         (5, 1.0, False), (5, 2.0, True))
BEAM_PROMPT, BEAM_LIMIT = 5, 12
TARGETS = [["--target", target, f"-O{level}"] for target in ("host", "portable") for level in range(4)]
TARGETS.append(["--batch"])  # the hypotheses of a beam together

# READ has %cache and %tokens and gives the next cache and logits; the loops are the same for all models.
PROGRAM = """IMPORTS
def @read(%cache: CACHE, %tokens: Tensor[(t), int64]) -> (CACHE, Tensor[(96), float32]) {
READ
}
def @last_row(%logits: Tensor[(1, t, 96), float32]) -> Tensor[(96), float32] {
  reshape(strided_slice(%logits, begin=[-1], end=[9223372036854775807], strides=[1], axes=[1]), newshape=[-1])
}
def @step(%cache: CACHE, %token: int32) -> (CACHE, Tensor[(96), float32]) {
  @read(%cache, expand_dims(cast(%token, dtype="int64"), axis=0))
}
def @text(PARAMETERS%prompt: Tensor[(p), int64], %limit: int32) -> List[int32] {
  let (%cache, %logits) = @read(START, %prompt);
  @greedy(@step, %cache, %logits, [2], %limit)
}
def @beams(PARAMETERS%prompt: Tensor[(p), int64], %width: int32, %limit: int32, %penalty: float32, %early: bool)
    -> List[(float32, List[int32])] {
  let (%cache, %logits) = @read(START, %prompt);
  @beam_search(@step, %cache, %logits, %width, [2], %limit, %penalty, %early)
}
// The logits behind the first tokens, and behind each that follows, the last first.
def @rows(PARAMETERS%tokens: Tensor[(n), int64], %first: int32) -> List[Tensor[(96), float32]] {
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
    return {"CACHE": caches("?", heads), "START": zeros(0, heads), "PARAMETERS": "", "READ": f"""{before}  let %r = {call};
  (({fields("r", 1)}), @last_row(%r.0))"""}


def plain(heads):
    return grown(heads, f"@model(expand_dims(%tokens, axis=0), {fields('cache', 0)})")


BUILDER = grown(2, f"@model(expand_dims(%tokens, axis=0), %ones, {fields('cache', 0)})", """
  let %count = extent(%cache.0, axis=2) + extent(%tokens, axis=0);
  let %ones = expand_dims(arange(0i64, %count, 1i64) * 0i64 + 1i64, axis=0);
""")
FIXED = {"CACHE": f"(int64, {caches(ROOM, 2)})", "START": f"(0i64, {zeros(ROOM, 2)})", "PARAMETERS": "", "READ": f"""
  let (%past, %own) = %cache;
  let %count = extent(%tokens, axis=0);
  let %r = @model(expand_dims(%tokens, axis=0), arange(0i64, %count, 1i64) + %past, {fields("own", 0)});
  ((%past + %count, ({fields("r", 1)})), @last_row(%r.0))"""}


def sourced(source):
    """A step that attends to a source, whose keys and values the encoder computes once."""
    return {"CACHE": f"({caches('?', HEADS)}, {caches('?', HEADS)})", "START": f"({zeros(0, HEADS)}, @encoder(%source))",
            "PARAMETERS": f"%source: {source}, ", "READ": f"""
  let (%own, %source) = %cache;
  let %r = @model(expand_dims(%tokens, axis=0), {fields("own", 0)}, {fields("source", 0)});
  ((({fields("r", 1)}), %source), @last_row(%r.0))"""}


TOKENS = sourced("Tensor[(1, s), int64]")
# Family, model, what PROGRAM has of it; those that attend to a source have an encoder beside the step.
CASES = (
    ("llama", "llama_dynamo.onnx", plain(2)),
    ("llama", "llama_script.onnx", plain(2)),
    ("llama", "llama_program.pt2", plain(2)),
    ("llama", "llama_fixed.onnx", FIXED),
    ("llama", "llama_builder.onnx", BUILDER),
    ("llama_builder_int4", "llama_builder_int4.onnx", BUILDER),
    ("gpt2", "gpt2_dynamo.onnx", plain(HEADS)),
    ("gpt2", "gpt2_script.onnx", plain(HEADS)),
    ("gpt2", "gpt2_program.pt2", plain(HEADS)),
    ("t5", "t5_step_dynamo.onnx", TOKENS),
    ("t5", "t5_step_script.onnx", TOKENS),
    ("marian", "marian_step_dynamo.onnx", TOKENS),
    ("marian", "marian_step_program.pt2", TOKENS),
    ("whisper", "whisper_step_dynamo.onnx", sourced("Tensor[(1, 8, 60), float32]")),
    ("whisper", "whisper_step_script.onnx", sourced("Tensor[(1, 8, 60), float32]")),
    ("moonshine", "moonshine_step_dynamo.onnx", sourced("Tensor[(1, 4000), float32]")),
    ("moonshine", "moonshine_step_program.pt2", sourced("Tensor[(1, 4000), float32]")),
)


class ExportedDecoders(language_models_test.Case):
    def expected(self, family):
        with np.load(os.path.join(weights.HERE, f"{family}.npz")) as file:
            return dict(file)

    def program_of(self, model, parts):
        """Writes the program of a case, and the models that it imports."""
        name, ending = model.split(".")
        imports = ""
        for file, function in ((name, "model"), (name.replace("_step_", "_encoder_"), "encoder")):
            if function == "model" or file != name:
                weights.unpack(file, self.path(f"{function}.{ending}"))
                imports += f'import "{function}.{ending}" as @{function};\n'
        text = PROGRAM
        for key, part in {**parts, "IMPORTS": imports}.items():
            text = text.replace(key, part)
        with open(self.path("main.relay"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("main.relay")

    def check(self, program, expected):
        source = [expected["source"]] if "source" in expected else []
        tokens = expected["tokens"]
        for prompt in PROMPTS:
            text = [token for token in expected[f"text{prompt}"].tolist() if token != STOP]
            got = program["text"](*source, tokens[:prompt], COMPLETION)
            self.assertEqual([int(token) for token in got], text)
        for first in PROMPTS:
            rows = list(program["rows"](*source, tokens, first))[::-1]
            self.assertEqual(len(rows), len(tokens) - first + 1)
            for place, row in zip(PLACES, expected["logits"]):
                if place >= first:
                    np.testing.assert_allclose(rows[place - first], row, rtol=1e-4, atol=5e-4)
        for i, (width, penalty, early) in enumerate(BEAMS if "beams0" in expected else ()):
            found = program["beams"](*source, tokens[:BEAM_PROMPT], width, BEAM_LIMIT, penalty, early)
            texts = [[token for token in row if token >= 0] for row in expected[f"beams{i}"].tolist()]
            self.assertEqual([[int(token) for token in text] for _, text in found], texts)
            np.testing.assert_allclose([float(score) for score, _ in found], expected[f"scores{i}"], rtol=1e-4, atol=1e-4)

    def test_models(self):
        """All at all levels, native and portable, and in batches, with --long; else three of them."""
        usual = [(CASES[8], TARGETS[2]), (CASES[10], TARGETS[4]), (CASES[2], TARGETS[-1])]
        for (family, model, parts), options in relayvm.long_or(list(itertools.product(CASES, TARGETS)), usual):
            with self.subTest(model, options=options):
                program = self.program_of(model, parts)
                entries = [option for entry in ("text", "rows", "beams") for option in ("--entry", entry)]
                self.check(self.load(program, *entries, *options), self.expected(family))

    def test_a_loop_inside(self):
        """The model is the loop: its texts have the token that ends them."""
        expected = self.expected("llama")
        weights.unpack("llama_loop", self.path("model.onnx"))
        for options in relayvm.long_or(TARGETS, TARGETS[2:3]):
            with self.subTest(options=options):
                model = self.load(self.path("model.onnx"), *options)
                for prompt in PROMPTS:
                    got = model(expected["tokens"][None, :prompt], COMPLETION)
                    self.assertEqual(got[:, 0].tolist(), expected[f"text{prompt}"].tolist())
