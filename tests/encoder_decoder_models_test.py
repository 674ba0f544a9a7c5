"""Models of an encoder and a decoder without graphs, beside the states, logits and texts of transformers
(tests/models/make.py writes them)."""

import json
import os
import shutil

import numpy as np

import language_models_test
import relayvm
from language_models_test import FIXTURES, PLACES

FAMILIES = ("bart", "flan_t5", "marian", "t5", "whisper")
CLOSE = {"rtol": 1e-4, "atol": 1e-3}
BEAMS = ((4, 1.0, True), (4, 0.6, False), (3, 2.0, False))  # width, penalty, early

# Reads the first tokens at once and the others one by one: the logits behind the last.
STEPS = """import "model" as @model;
def @steps(%source: SOURCE, %tokens: Tensor[(t), int32], %first: int32) {
  let (%cache, %logits) = @model.read(@model.start(@model.encode(%source)), take(%tokens, arange(0, %first, 1)));
  @go(%tokens, %first, %cache, %logits)
}
def @go(%tokens: Tensor[(t), int32], %at: int32, %cache: CACHE, %logits: Tensor[(v), float32]) -> Tensor[(v), float32] {
  if (cast(%at, dtype="int64") == extent(%tokens, axis=0)) { %logits } else {
    let (%next, %more) = @model.step(%cache, take(%tokens, %at));
    @go(%tokens, %at + 1, %next, %more)
  }
}
"""
NO_TEXT = np.zeros(0, "int32")


def starts_of(family):
    return [0, 1] if family == "bart" else [0]


class EncoderDecoders(language_models_test.Case):
    def source(self, family):
        return self.expected(family)["source100" if family == "whisper" else "source63"]

    def test_states_and_logits(self):
        """States of sources of several lengths, and the logits behind all tokens of a text at once."""
        for family in FAMILIES:
            with self.subTest(family):
                model, expected = self.load(os.path.join(FIXTURES, family), "--entry", "encode", "--entry", "main"), self.expected(family)
                for length in (100,) if family == "whisper" else PLACES:
                    states = model["encode"](expected[f"source{length}"])
                    np.testing.assert_allclose(states[[0, len(states) // 2, -1]], expected[f"states{length}"], **CLOSE)
                for place, row in zip(PLACES, expected["logits"]):
                    logits = model(self.source(family), expected["text"][:place - 1])
                    self.assertEqual(len(logits), place - 1 + len(starts_of(family)))
                    np.testing.assert_allclose(logits[-1], row, **CLOSE)

    def test_caches(self):
        """Tokens one by one behind prompts of three lengths, through caches of each number of tokens."""
        for family, options in (("t5", ["-O3"]), ("whisper", ["-O0"]), ("bart", ["--target", "portable"]), ("flan_t5", ["-O1"])):
            with self.subTest(family):
                shown = relayvm.must(relayvm.COMPILER, "check", os.path.join(FIXTURES, family), "--types")
                (line,) = [line for line in shown.splitlines() if line.startswith("@start:")]
                given = "Tensor[(8, f), float32]" if family == "whisper" else "Tensor[(s), int32]"
                program = self.program(STEPS.replace("CACHE", line.split("-> ")[1]).replace("SOURCE", given), family)
                model, expected = self.load(program, "--entry", "steps", *options), self.expected(family)
                tokens = np.concatenate([starts_of(family), expected["text"]]).astype("int32")
                for first in (1, 8, 63):
                    for place, row in zip(PLACES, expected["logits"]):
                        place += len(starts_of(family)) - 1
                        if place >= first:
                            got = model["steps"](self.source(family), tokens[:place], first)
                            np.testing.assert_allclose(got, row, **CLOSE)

    def test_texts(self):
        """Greedily, by beams and as a stream: the tokens of `generate`, and its scores."""
        for family in FAMILIES:
            with self.subTest(family):
                model, expected = self.load(os.path.join(FIXTURES, family)), self.expected(family)
                source, completion = self.source(family), expected["completion"].tolist()
                as_list = lambda text: [int(token) for token in text]
                self.assertEqual(as_list(model["complete"](source, NO_TEXT, 40)), completion)
                head = np.array(completion[:3], "int32")
                self.assertEqual(as_list(model["complete"](source, head, 37)), completion[3:])
                streamed = list(model["stream"].stream(source, NO_TEXT, 6, 1, 0.0, 0, 1.0, 0.0))
                self.assertEqual(as_list(streamed), completion[:6])
                (_, text), *_ = model["beams"](source, NO_TEXT, 1, 6, 1.0, False)
                self.assertEqual(as_list(text), completion[:6])
                # transformers normalises before it suppresses tokens, and counts those that it forces.
                for i, (width, penalty, early) in enumerate(BEAMS if family in ("flan_t5", "t5") else ()):
                    got = model["beams"](source, NO_TEXT, width, 12, penalty, early)
                    texts = [[token for token in row if token >= 0] for row in expected[f"beams{i}"].tolist()]
                    self.assertEqual([as_list(text) for _, text in got], texts)
                    np.testing.assert_allclose([float(score) for score, _ in got], expected[f"scores{i}"], rtol=1e-4)

    def test_suppressed_tokens(self):
        """Loops leave them out, at all or first; steps have their logits."""
        stop, never, later = 2, [5, 6, 7], [8, 2]
        model, source = self.load(os.path.join(FIXTURES, "whisper"), "--entry", "complete", "--entry", "main"), self.source("whisper")
        self.assertTrue(np.isfinite(model(source, NO_TEXT)).all())
        suppressed = self.change("whisper", suppress_tokens=list(range(3, 80)), begin_suppress_tokens=[stop, 1])
        self.assertEqual([int(token) for token in self.load(suppressed, "--entry", "complete")["complete"](source, NO_TEXT, 1)], [0])
        for token in self.expected("whisper")["completion"].tolist():
            self.assertNotIn(token, never)
        self.assertNotIn(self.expected("whisper")["completion"][0], later)

    def test_timestamps(self):
        """Texts with times and without, behind words and times, too."""
        with np.load(os.path.join(FIXTURES, "whisper", "timestamps.npz")) as file:
            settings, prompts, rolls, texts = (file[name] for name in ("settings", "prompts", "rolls", "texts"))
        model = self.load(self.change("whisper", **json.loads(str(settings))), "--entry", "complete", "--entry", "stream")
        source = self.source("whisper")
        for prompt, roll, text in list(zip(prompts, rolls, texts))[::relayvm.long_or(1, 4)]:
            given = (np.roll(source, roll, axis=1), prompt[prompt >= 0])
            expected = text[text >= 0].tolist()
            self.assertEqual([int(token) for token in model["complete"](*given, len(text))], expected)
        streamed = list(model["stream"].stream(*given, 6, 1, 0.0, 0, 1.0, 0.0))
        self.assertEqual([int(token) for token in streamed], expected[:6])

    def change(self, family, **changes):
        """A copy of the fixture with other settings, without those for generation; those of None are missing."""
        shutil.rmtree(self.path("model"), ignore_errors=True)
        shutil.copytree(os.path.join(FIXTURES, family), self.path("model"))
        os.remove(self.path("model/generation_config.json"))
        with open(self.path("model/config.json"), encoding="utf-8") as file:
            config = {**json.load(file), **changes}
        with open(self.path("model/config.json"), "w", encoding="utf-8") as file:
            json.dump({key: setting for key, setting in config.items() if setting is not None}, file)
        return self.path("model")

    def test_refusals(self):
        for family, changes, message in (
                ("t5", {"feed_forward_proj": "gated-mish"}, "saw `gated-mish`; expected `relu`, `gated-gelu` or `gated-silu`"),
                ("t5", {"relative_attention_max_distance": 16}, "expected more than 16"),
                ("t5", {"relative_attention_num_buckets": 2}, "expected a number from 4 to 65536"),
                ("t5", {"num_layers": 3, "num_decoder_layers": 2}, "it is missing"),
                ("t5", {"d_kv": 16}, "it has (32, 32); expected (64, 32)"),
                ("t5", {"decoder_start_token_id": None}, "saw no `decoder_start_token_id`; expected a token"),
                ("t5", {"eos_token_id": 80}, "saw the token 80; expected one of 80"),
                ("t5", {"vocab_size": 1 << 25}, "expected a number from 1 to 16777216"),
                ("bart", {"activation_function": "mish"}, "saw `mish`; expected `silu`"),
                ("bart", {"encoder_attention_heads": 2}, "saw `2`; expected 4, as the decoder has"),
                ("bart", {"decoder_attention_heads": 33}, "saw 33 heads for states of 32 elements"),
                ("marian", {"max_position_embeddings": 1 << 20}, "expected a number from 1 to 524288"),
                ("whisper", {"suppress_tokens": [-1]}, "saw the token -1; expected one of 80"),
                ("whisper", {"no_timestamps_token_id": 80}, "saw the token 80; expected one of 80"),
                ("whisper", {"max_initial_timestamp_index": -1},
                 "saw `max_initial_timestamp_index` -1; expected a number below 80"),
                ("whisper", {"num_mel_bins": 9}, "it has (32, 8, 3); expected (32, 9, 3)"),
                ("whisper", {"quantization_config": {"quant_method": "gptq"}}, "saw `gptq`")):
            with self.subTest(family, **changes):
                self.assertIn(message, self.error(self.change(family, **changes)))
