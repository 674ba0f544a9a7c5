"""Encoders without graphs: folders of transformers as programs, beside its states (tests/models/make.py writes them)."""

import json
import os
import shutil
import struct

import numpy as np

import language_models_test
import relayvm
from language_models_test import FIXTURES, PLACES

FAMILIES = ("bert", "distilbert", "roberta")
CLOSE = {"rtol": 1e-5, "atol": 2e-5}


class Encoders(language_models_test.Case):
    def compare(self, model, family, lengths=PLACES):
        expected = self.expected(family)
        for length in lengths:
            tokens, mask = expected[f"tokens{length}"], expected[f"mask{length}"]
            given = [tokens, mask] if family == "distilbert" else [tokens, mask, expected[f"types{length}"]]
            result = model(*given)
            states = result if family == "distilbert" else result[0]
            np.testing.assert_allclose(states[:, [0, length // 2, length - 1]], expected[f"states{length}"], **CLOSE)
            if family != "distilbert":
                np.testing.assert_allclose(result[1], expected[f"pooled{length}"], **CLOSE)

    def test_families(self):
        """States and pooled states of two texts, with padding and types of tokens."""
        for family in FAMILIES:
            with self.subTest(family):
                self.compare(self.load(os.path.join(FIXTURES, family)), family)

    def test_levels(self):
        for family, options in (("bert", ["-O0"]), ("roberta", ["-O3"]), ("distilbert", ["--target", "portable"])):
            with self.subTest(family):
                self.compare(self.load(os.path.join(FIXTURES, family), *options), family, (1, 65))

    def test_one_text(self):
        """A text alone has the states that it has among others."""
        for family in FAMILIES:
            with self.subTest(family):
                model = self.load(os.path.join(FIXTURES, family), "--entry", "text")
                expected = self.expected(family)
                for length in (1, 65):
                    given = [expected[f"tokens{length}"][0]] + [expected[f"types{length}"][0]] * (family != "distilbert")
                    states = model["text"](*given)
                    np.testing.assert_allclose(states[[0, length // 2, length - 1]], expected[f"states{length}"][0], **CLOSE)

    def changed(self, family, rename=lambda name: name, extra=(), **changes):
        """A copy of the fixture with other settings, names of tensors and tensors."""
        shutil.rmtree(self.path("model"), ignore_errors=True)
        shutil.copytree(os.path.join(FIXTURES, family), self.path("model"))
        with open(self.path("model/config.json"), encoding="utf-8") as file:
            config = {**json.load(file), **changes}
        with open(self.path("model/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(self.path("model/model.safetensors"), "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(size)), file.read()
        header = {rename(name): entry for name, entry in header.items() if name != "__metadata__"}
        for name, dtype, array in extra:
            header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
        text = json.dumps(header).encode()
        with open(self.path("model/model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        return self.path("model")

    def test_old_names(self):
        """Names of norms that old checkpoints have, a prefix, and the numbers of positions, which are integers."""
        def old(name):
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            return "bert." + name

        numbers = np.arange(256, dtype="int64")[None]
        folder = self.changed("bert", old, [("bert.embeddings.position_ids", "I64", numbers)])
        self.compare(self.load(folder), "bert", (1, 65))

    def test_without_pooler(self):
        folder = self.changed("bert", lambda name: name.replace("pooler", "other"))
        done = relayvm.run(relayvm.COMPILER, "check", folder)
        self.assertIn("does not use 2 tensors: `other.dense.bias`, `other.dense.weight`", done.stderr)
        expected = self.expected("bert")
        states = self.load(folder)(expected["tokens65"], expected["mask65"], expected["types65"])
        np.testing.assert_allclose(states[:, [0, 32, 64]], expected["states65"], **CLOSE)

    def test_refusals(self):
        for family, changes, message in (
                ("bert", {"hidden_act": "mish"}, "saw `mish`; expected `silu`"),
                ("bert", {"is_decoder": True}, "saw `true`; expected false (`is_decoder`)"),
                ("roberta", {"position_embedding_type": "relative_key"}, "saw `relative_key`; expected `absolute`"),
                ("bert", {"num_attention_heads": 5}, "saw 5 heads for states of 32 elements; expected a divisor"),
                ("distilbert", {"n_heads": 33}, "saw 33 heads for states of 32 elements; expected at most as many heads"),
                ("distilbert", {"dim": -1}, "expected a number from 1 to 2147483648 (`dim`)"),
                ("bert", {"num_hidden_layers": 3}, "it is missing"),
                ("bert", {"type_vocab_size": 2}, "it has (3, 32); expected (2, 32)"),
                ("roberta", {"pad_token_id": 1 << 31}, "expected a number from 0 to 2147483647 (`pad_token_id`)"),
                ("bert", {"quantization_config": {"quant_method": "gptq"}}, "saw `gptq`")):
            with self.subTest(family, **changes):
                self.assertIn(message, self.error(self.changed(family, **changes)))
