"""Weights without graphs: folders and GGUF files as programs, beside the logits and texts of transformers
(tests/models/make.py writes them)."""

import json
import os
import re
import shutil
import struct
import tempfile

import numpy as np

import gguf
import in_process
import relayvm

FIXTURES = os.path.join(relayvm.ROOT, "tests", "models")
FAMILIES = ("gemma", "gemma2", "gemma3", "gpt2", "llama", "mistral", "qwen2", "qwen3")
PLACES = (1, 63, 64, 65, 200)
PROMPT, COMPLETION = 9, 40
CLOSE = {"rtol": 1e-5, "atol": 3e-5}
NEAR = {"rtol": 1e-3, "atol": 2e-2}  # with caches of 16 bits

# Reads the first tokens at once and the others one by one: the logits behind each number of them in %places.
STEPS = """import "model" as @model;
def @steps(%tokens: Tensor[(t), int32], %first: int32, %last: int32) {
  let %start = @model.read(@model.start(), take(%tokens, arange(0, %first, 1)));
  @go(%tokens, %first, %last, %start.0, %start.1)
}
def @go(%tokens: Tensor[(t), int32], %at: int32, %last: int32, %cache: CACHE, %logits: Tensor[(v), float32])
    -> Tensor[(v), float32] {
  if (%at == %last) { %logits } else {
    let (%next, %more) = @model.step(%cache, take(%tokens, %at));
    @go(%tokens, %at + 1, %last, %next, %more)
  }
}
"""
LOOPS = """import "model" as @model;
def @greedy_text(%tokens: Tensor[(t), int32], %limit: int32) -> List[int32] {
  let (%cache, %logits) = @model.read(@model.start(), %tokens);
  @greedy(@model.step, %cache, %logits, [2], %limit)
}
def @beam_texts(%tokens: Tensor[(t), int32], %width: int32, %limit: int32) -> List[(float32, List[int32])] {
  let (%cache, %logits) = @model.read(@model.start(), %tokens);
  @beam_search(@model.step, %cache, %logits, %width, [2], %limit, 1f, False)
}
def @sampled_text(%tokens: Tensor[(t), int32], %limit: int32, %seed: uint64) -> List[int32] {
  let (%cache, %logits) = @model.read(@model.start(), %tokens);
  @sampled(@model.step, %cache, %logits, [2], %limit, %seed, 0.5f, 1, 1f, 0f)
}
"""


def write_safetensors(path, tensors):
    """`tensors`: arrays by name, written in float32."""
    tensors = {name: np.ascontiguousarray(array, "<f4") for name, array in tensors.items()}
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


class Case(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, source, *options):
        output = self.path(os.path.basename(source.rstrip("/")) + ".rvm")
        relayvm.must(relayvm.COMPILER, "compile", source, "-o", output, *options)
        return output

    def load(self, source, *options):
        return in_process.load(self.compile(source, *options))

    def expected(self, family):
        """What transformers gave for the fixture."""
        with np.load(os.path.join(FIXTURES, family, "expected.npz")) as file:
            return dict(file)

    def program(self, text, model):
        """A program that imports the fixture as "model"."""
        shutil.rmtree(self.path("model"), ignore_errors=True)
        shutil.copytree(os.path.join(FIXTURES, model), self.path("model"))
        with open(self.path("main.relay"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("main.relay")

    def error(self, source):
        done = relayvm.run(relayvm.COMPILER, "check", source)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr


class Folders(Case):
    def test_families(self):
        """All logits at once, and a text by @complete, as transformers has them; with caches of float16 to their precision."""
        for family, dtype, close in (*((family, "float32", CLOSE) for family in FAMILIES), ("gemma2", "float16", NEAR),
                                     ("llama", "float16", NEAR)):
            with self.subTest(family, dtype=dtype):
                expected = self.expected(family)
                model = self.load(os.path.join(FIXTURES, family), "--entry", "main", "--entry", "complete", "--cache-dtype", dtype)
                tokens = expected["tokens"]
                for length in PLACES:
                    row = model(tokens[:length])[-1]
                    np.testing.assert_allclose(row, expected["logits"][PLACES.index(length)], **close)
                text = model["complete"](tokens[:PROMPT], COMPLETION)
                self.assertEqual([int(token) for token in text], expected["completion"].tolist())

    def test_caches(self):
        """Tokens one by one behind prompts of four lengths, through caches of each number of tokens."""
        for family, options in (("llama", ["-O3"]), ("gpt2", ["-O0"]), ("gemma2", ["--target", "portable"])):
            with self.subTest(family):
                cache = self.cache_type(os.path.join(FIXTURES, family), "--cache-dtype", "float32")
                steps = STEPS.replace("@model;", '@model(cache_dtype="float32");')
                program = self.program(steps.replace("CACHE", cache), family)
                model = self.load(program, "--entry", "steps", *options)
                tokens, logits = (self.expected(family)[name] for name in ("tokens", "logits"))
                for first in (1, 8, 63, 130):
                    for place, row in zip(PLACES, logits):
                        if place >= first:
                            got = model["steps"](tokens, first, place)
                            np.testing.assert_allclose(got, row, **CLOSE)

    def cache_type(self, model, *options):
        shown = relayvm.must(relayvm.COMPILER, "check", model, "--types", *options)
        (line,) = [line for line in shown.splitlines() if line.startswith("@start:")]
        return line.split("-> ")[1]

    def test_dtypes_of_caches(self):
        """Those of the weights' precision, unless another one is chosen, in each of the places where options are."""
        llama = os.path.join(FIXTURES, "llama")  # weights of bfloat16
        self.assertEqual(set(re.findall("float[0-9]*|bfloat16", self.cache_type(llama))), {"float16"})
        for dtype in ("float16", "bfloat16", "float32"):
            self.assertEqual(set(re.findall("b?float[0-9]+", self.cache_type(llama, "--cache-dtype", dtype))), {dtype})
            text = f'import "model" as @model(cache_dtype="{dtype}");\ndef @none() {{ @model.start() }}\n'
            program = self.program(text, "llama")
            shown = relayvm.must(relayvm.COMPILER, "check", program, "--types")
            self.assertIn(f"@none: fn () -> (Tensor[(?, 2, 8), {dtype}]", shown)
            named = relayvm.must(relayvm.COMPILER, "check", "--import", f"model={llama}", "--cache-dtype", f"@model.{dtype}",
                                 self.write_text("def @none() { @model.start() }\n"), "--types")
            self.assertEqual(named, shown)
        with open(self.path("graph.onnx"), "wb"):
            pass
        for source, options, message in (
                (llama, ["--cache-dtype", "int8"], "`--cache-dtype`: saw `int8`; expected float16, bfloat16 or float32, as the dtype of caches"),
                (program, ["--cache-dtype", "float16"], "saw `float16`; expected a dtype of the caches of a model that is compiled, or @NAME.DTYPE"),
                (os.path.join(FIXTURES, "bert"), ["--cache-dtype", "float16"], "an encoder has no caches, whose dtype could be chosen"),
                (self.path("graph.onnx"), ["--cache-dtype", "float16"], "models of the format onnx have the caches of their graph")):
            with self.subTest(message):
                done = relayvm.run(relayvm.COMPILER, "check", source, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)

    def write_text(self, text):
        with open(self.path("text.relay"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("text.relay")

    def test_loops(self):
        """A step that is imported is one for the loops of the Prelude."""
        tokens, completion = self.expected("llama")["tokens"][:PROMPT], self.expected("llama")["completion"].tolist()
        model = self.load(self.program(LOOPS, "llama"))
        as_list = lambda text: [int(token) for token in text]
        self.assertEqual(as_list(model["greedy_text"](tokens, COMPLETION)), completion)
        self.assertEqual(as_list(model["sampled_text"](tokens, COMPLETION, 3)), completion)  # of 1 candidate
        self.assertEqual(self.load(os.path.join(FIXTURES, "llama"), "--entry", "beams")["beams"](tokens, 4, 5, 1.0, False),
                         model["beam_texts"](tokens, 4, 5))
        (_, text), *_ = model["beam_texts"](tokens, 1, 5)
        self.assertEqual(as_list(text), completion[:5])
        scores = [float(score) for score, _ in model["beam_texts"](tokens, 4, 5)]
        self.assertEqual(scores, sorted(scores, reverse=True))

    def test_stream(self):
        path = self.compile(os.path.join(FIXTURES, "qwen2"), "--entry", "stream")
        tokens, completion = self.expected("qwen2")["tokens"][:PROMPT], self.expected("qwen2")["completion"].tolist()
        text = "[" + ", ".join(map(str, tokens)) + "]"
        shown = relayvm.must(relayvm.RUNTIME, path, "--entry", "stream", text, "6", "1u64", "0.0", "0", "1.0", "0.0")
        self.assertEqual([int(line) for line in shown.split()[:6]], completion[:6])

    def test_traffic(self):
        """A step reads all weights but the table of embeddings, and a token adds keys and values to each layer's cache."""
        with open(os.path.join(FIXTURES, "llama", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        table = 2 * config["vocab_size"] * config["hidden_size"]
        cache = 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
        step = self.compile(os.path.join(FIXTURES, "llama"), "--entry", "step")
        shown = relayvm.must(relayvm.COMPILER, "inspect", step, "--traffic")
        (line,) = [line for line in shown.splitlines() if line.startswith("  @step ")]
        read, added = re.search(r"weights ([0-9.]+) kB, .* a call; and ([0-9]+) B, .* for each token", line).groups()
        self.assertEqual(int(added), cache)
        constants = int(re.search(r"constants +([0-9]+) bytes", shown).group(1))
        self.assertAlmostEqual(float(read) * 1000, constants - table, delta=100)

    def change(self, family, **changes):
        """Makes "model" a copy of the fixture with changed settings; those of None are null."""
        shutil.rmtree(self.path("model"), ignore_errors=True)
        shutil.copytree(os.path.join(FIXTURES, family), self.path("model"))
        os.remove(self.path("model/generation_config.json"))
        with open(os.path.join(FIXTURES, family, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.write("config.json", json.dumps({**config, **changes}))

    def write(self, name, text):
        with open(self.path(os.path.join("model", name)), "w", encoding="utf-8") as file:
            file.write(text)

    def imported(self, family, **changes):
        """The program and the weights of a fixture with changed settings."""
        self.change(family, **changes)
        relayvm.must(relayvm.COMPILER, "import", self.path("model"), "-o", self.path("model.relay"))
        contents = []
        for name in ("model.relay", "model.safetensors"):
            with open(self.path(name), "rb") as file:
                contents.append(file.read())
        return contents

    def test_settings_that_are_null(self):
        """Null is a setting that is missing: `rope_parameters` do not hide `rope_scaling`."""
        with open(os.path.join(FIXTURES, "llama", "config.json"), encoding="utf-8") as file:
            rotation = json.load(file)["rope_parameters"]
        expected = self.imported("llama")
        self.assertEqual(self.imported("llama", rope_parameters=None, rope_scaling=rotation), expected)
        self.assertEqual(self.imported("llama", rope_scaling=None, head_dim=None), expected)
        self.assertNotEqual(self.imported("llama", rope_parameters=None), expected)

    def test_windows_of_qwen(self):
        """Without `layer_types`, layers from `max_window_layers` on have a window, if one is used."""
        window = {"sliding_window": 16, "use_sliding_window": True}
        for family in ("qwen2", "qwen3"):
            with self.subTest(family):
                none = self.imported(family)
                last = self.imported(family, layer_types=["full_attention", "sliding_attention"], **window)
                both = self.imported(family, layer_types=["sliding_attention"] * 2, **window)
                self.assertEqual(len({text for text, _ in (none, last, both)}), 3)
                for layers, expected in ((0, both), (1, last), (2, none), (28, none), (None, none)):
                    got = self.imported(family, layer_types=None, max_window_layers=layers, **window)
                    self.assertEqual(got, expected, layers)
                self.assertEqual(self.imported(family, layer_types=None, max_window_layers=0, sliding_window=16,
                                               use_sliding_window=None), none)

    def test_files_of_other_names(self):
        """Only a whole `config.json` is a model: other files end so, too."""
        self.change("llama")
        for name in ("my_config.json", "generation_config.json"):
            shutil.copy(self.path("model/config.json"), self.path(f"model/{name}"))
            done = relayvm.run(relayvm.COMPILER, "import", self.path(f"model/{name}"), "-o", self.path("model.relay"))
            self.assertIn("is no model; expected an", done.stderr)
        for name in ("", "/", "/config.json"):
            relayvm.must(relayvm.COMPILER, "import", self.path("model") + name, "-o", self.path("model.relay"))

    def test_refused_settings(self):
        """Numbers that no program can have, by the settings that have them."""
        positive, finite = "expected a number above 0", "expected a number that is finite in float32"
        rotation = lambda **changes: {"rope_parameters": {"rope_type": "llama3", "factor": 4.0, **changes}}
        for family, changes, expected in (
                ("llama", {"num_attention_heads": 1000, "num_key_value_heads": 1000, "head_dim": None},
                 "saw 1000 heads for states of 32 elements; expected at most as many heads"),
                ("gpt2", {"n_head": 33}, "saw 33 heads for states of 32 elements; expected at most as many heads"),
                ("llama", {"head_dim": 1 << 17}, "expected a number from 1 to 65536"),
                ("llama", rotation(rope_theta=0), positive),
                ("llama", rotation(factor=-2.0), positive),
                ("llama", rotation(low_freq_factor=0.0), positive),
                ("llama", rotation(high_freq_factor=1e-60), positive),
                ("llama", rotation(original_max_position_embeddings=0), positive),
                ("llama", {"rope_parameters": None, "rope_theta": -1}, positive),
                ("llama", rotation(rope_theta=1e300), finite),
                ("llama", rotation(rope_theta=10**39), finite),
                ("llama", {"rms_norm_eps": 1e39}, finite),
                ("gemma2", {"query_pre_attn_scalar": 0}, positive),
                ("gemma3", {"rope_parameters": None, "rope_local_base_freq": 0}, positive),
                ("llama", {"eos_token_id": 1 << 31}, "saw the token 2147483648; expected an int32"),
                ("llama", {"eos_token_id": [2, -(1 << 40)]}, "saw the token -1099511627776; expected an int32")):
            with self.subTest(family, **changes):
                self.change(family, **changes)
                shown = self.error(self.path("model"))
                self.assertEqual(shown.count("expected"), 1, shown)
                self.assertIn(expected, shown)

    def test_refused_files(self):
        """A file that cannot be used is an error, not one that is missing."""
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
        self.change("qwen3")
        self.write("model.safetensors", pointer)
        self.assertIn("Git LFS", self.error(self.path("model")))
        os.remove(self.path("model/model.safetensors"))
        relayvm.must(relayvm.COMPILER, "check", self.path("model"))
        self.write("generation_config.json", "{")
        self.assertIn("generation_config.json: ", self.error(self.path("model")))
        self.write("generation_config.json", pointer)
        self.assertIn("Git LFS", self.error(self.path("model")))
        os.remove(self.path("model/generation_config.json"))
        self.write("model.safetensors.index.json", pointer)
        self.assertIn("Git LFS", self.error(self.path("model")))
        self.write("model.safetensors", "short")
        self.assertIn("model.safetensors: no .safetensors file", self.error(self.path("model")))
        # A data type with the name of a type that only GGUF has.
        for dtype in ("Q8_0", "Q4_K", "F99"):
            header = json.dumps({"model.norm.weight": {"dtype": dtype, "shape": [32], "data_offsets": [0, 34]}}).encode()
            with open(self.path("model/model.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + bytes(34))
            self.assertIn(f"dtype {dtype}: tensors of this type are not supported", self.error(self.path("model")))

    def test_refusals(self):
        """All at once, with what was seen and what was expected."""

        def error(**changes):
            self.change("llama", **changes)
            return self.error(self.path("model"))

        shown = error(hidden_act="mish", rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}, intermediate_size=47)
        self.assertIn("`hidden_act`", shown)
        self.assertIn("saw `mish`; expected `silu`", shown)
        self.assertIn("saw `yarn`; expected `default`, `linear` or `llama3`", shown)
        self.assertIn("it has (48, 32); expected (47, 32)", shown)
        shown = error(model_type="rwkv")
        self.assertIn("saw `rwkv`; expected `gemma`", shown)
        self.assertIn("an encoder: `bert`", shown)
        self.assertIn("or an encoder with a decoder: `bart`", shown)
        self.assertIn("it is missing", error(num_hidden_layers=3))
        self.assertIn("expected a number from 1 to 2147483648", error(hidden_size=-1))
        self.assertIn("expected a multiple", error(num_attention_heads=5, head_dim=8))
        self.assertIn("saw `gptq`", error(quantization_config={"quant_method": "gptq"}))
        self.change("llama")
        os.remove(self.path("model/model.safetensors"))
        self.assertIn("expected `model.safetensors` or", self.error(self.path("model")))
        self.write("model.safetensors.index.json", json.dumps({"weight_map": {"x": "../secret.safetensors"}}))
        self.assertIn("expected names of files in the folder", self.error(self.path("model")))

    def test_unused_tensors_are_named(self):
        shutil.copytree(os.path.join(FIXTURES, "gpt2"), self.path("model"))
        write_safetensors(self.path("model/extra.safetensors"), {"score.weight": np.zeros((2, 2))})
        shutil.move(self.path("model/model.safetensors"), self.path("model/first.safetensors"))
        with open(self.path("model/model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"weight_map": {"a": "first.safetensors", "b": "extra.safetensors"}}, file)
        done = relayvm.run(relayvm.COMPILER, "check", self.path("model"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("does not use 1 tensor: `score.weight`", done.stderr)


class GgufFiles(Case):
    """Random blocks, beside a folder with the same weights in float32."""
    WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY, LAYERS = 256, 8, 4, 512, 96, 2
    KINDS = {"attn_q": "Q4_K", "attn_k": "Q8_0", "attn_v": "Q4_0", "attn_output": "Q6_K", "ffn_gate": "F16",
             "ffn_up": "BF16", "ffn_down": "Q4_K"}
    NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}

    def metadata(self, architecture="llama", **changes):
        own = {"block_count": self.LAYERS, "embedding_length": self.WIDTH, "feed_forward_length": self.INNER,
               "attention.head_count": self.HEADS, "attention.head_count_kv": self.KEY_HEADS, "rope.freq_base": 5000.0,
               "attention.layer_norm_rms_epsilon": 1e-5, **changes}
        return {"general.architecture": architecture, "tokenizer.ggml.tokens": ["a", "b"],
                "tokenizer.ggml.scores": [0.0, 1.0], "tokenizer.ggml.eos_token_id": 2,
                **{f"{architecture}.{key}": given for key, given in own.items()}}

    def make(self, architecture):
        """Tensors of the file, and those of the folder."""
        dice = np.random.default_rng(5)
        size = self.WIDTH // self.HEADS
        shapes = {"attn_q": (self.WIDTH, self.WIDTH), "attn_k": (self.KEY_HEADS * size, self.WIDTH),
                  "attn_v": (self.KEY_HEADS * size, self.WIDTH), "attn_output": (self.WIDTH, self.WIDTH),
                  "ffn_gate": (self.INNER, self.WIDTH), "ffn_up": (self.INNER, self.WIDTH),
                  "ffn_down": (self.WIDTH, self.INNER)}
        stored, floats = {}, {}

        def add(name, other, kind, shape, **given):
            stored[name], values = gguf.random(dice, kind, shape, **given)
            if architecture == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
                # Elements that are rotated together are neighbours in the file, halves of heads in the folder.
                pairs = values.reshape(-1, size // 2, 2, shape[1])
                values = pairs.swapaxes(1, 2).reshape(shape)
            floats[other] = values

        add("token_embd.weight", "model.embed_tokens.weight", "Q6_K", (self.VOCABULARY, self.WIDTH))
        add("output.weight", "lm_head.weight", "Q8_0", (self.VOCABULARY, self.WIDTH))
        add("output_norm.weight", "model.norm.weight", "F32", (self.WIDTH,), shift=1)
        for i in range(self.LAYERS):
            for name, kind in self.KINDS.items():
                add(f"blk.{i}.{name}.weight", f"model.layers.{i}.{self.NAMES[name]}.weight", kind, shapes[name])
            for name in ("attn_norm", "ffn_norm"):
                add(f"blk.{i}.{name}.weight", f"model.layers.{i}.{self.NAMES[name]}.weight", "F32", (self.WIDTH,), shift=1)
        return stored, floats

    def write_folder(self, floats, model_type):
        os.mkdir(self.path("floats"))
        config = {"model_type": model_type, "num_hidden_layers": self.LAYERS, "hidden_size": self.WIDTH,
                  "intermediate_size": self.INNER, "vocab_size": self.VOCABULARY, "num_attention_heads": self.HEADS,
                  "num_key_value_heads": self.KEY_HEADS, "rope_theta": 5000.0, "rms_norm_eps": 1e-5}
        with open(self.path("floats/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        write_safetensors(self.path("floats/model.safetensors"), floats)
        return self.path("floats")

    def test_quantised(self):
        tokens = np.random.default_rng(1).integers(0, self.VOCABULARY, 70).astype("int32")
        for architecture, target in (("llama", "host"), ("qwen2", "host"), ("llama", "portable")):
            with self.subTest(architecture, target=target):
                shutil.rmtree(self.path("floats"), ignore_errors=True)
                stored, floats = self.make(architecture)
                path = self.path("model.gguf")
                gguf.write(path, self.metadata(architecture), stored)
                expected = self.load(self.write_folder(floats, architecture), "--entry", "main")
                model = self.load(path, "--entry", "main", "--target", target, "--cache-dtype", "float32",
                                  "--activation-dtype", "float32")
                for length in (1, 64, 70) if target == "host" else (3,):
                    got, want = model(tokens[:length]), expected(tokens[:length])
                    self.assertGreater(np.ptp(want, axis=1).min(), 1)
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-4)

    def test_activations(self):
        """Rows are rounded to bytes for quantised weights, unless they are to stay floats: as much as they say, and no more."""
        tokens = np.random.default_rng(1).integers(0, self.VOCABULARY, 40).astype("int32")
        stored, _ = self.make("llama")
        path = self.path("model.gguf")
        gguf.write(path, self.metadata(), stored)
        given = ["--entry", "main", "--cache-dtype", "float32"]
        exact = self.load(path, *given, "--activation-dtype", "float32")(tokens)
        rounded = self.load(path, *given)(tokens)
        np.testing.assert_array_equal(rounded, self.load(path, *given, "--activation-dtype", "int8")(tokens))
        self.assertEqual((rounded == exact).mean(), 0)
        self.assertLess(np.abs(rounded - exact).max(), 0.05 * np.ptp(exact, axis=1).max())
        portable = self.load(path, *given, "--target", "portable")(tokens[:3])
        np.testing.assert_allclose(portable, rounded[:3], atol=0.02 * np.ptp(exact, axis=1).max())

        imported = relayvm.must(relayvm.COMPILER, "import", path, "-o", self.path("model.relay"), "--activation-dtype", "float32")
        with open(self.path("model.relay"), encoding="utf-8") as file:
            self.assertNotIn("round_half_even", file.read(), imported)
        for option, expected in (("float32", 0), ("int8", 3)):
            text = f'import "model.gguf" as @model(activation_dtype="{option}");\ndef @none() {{ @model.start() }}\n'
            with open(self.path("main.relay"), "w", encoding="utf-8") as file:
                file.write(text)
            shown = relayvm.must(relayvm.COMPILER, "check", self.path("main.relay"), "--types")
            self.assertEqual(len(re.findall("^@model.rounded_", shown, re.MULTILINE)), expected, shown)
        with open(self.path("graph.onnx"), "wb"):
            pass
        llama = os.path.join(FIXTURES, "llama")
        for source, options, message in (
                (path, ["--activation-dtype", "int4"], "`--activation-dtype`: saw `int4`; expected int8 or float32, as the dtype of rows that weights multiply"),
                (llama, ["--activation-dtype", "int8"], "the model has no quantised weights, which such rows could be multiplied by"),
                (self.path("graph.onnx"), ["--activation-dtype", "int8"], "models of the format onnx have those of their graph")):
            with self.subTest(message):
                done = relayvm.run(relayvm.COMPILER, "check", source, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)

    def test_weights_keep_their_form(self):
        stored, _ = self.make("llama")
        path = self.path("model.gguf")
        gguf.write(path, self.metadata(), stored)
        relayvm.must(relayvm.COMPILER, "import", path, "-o", self.path("model.relay"))
        weights = os.path.getsize(self.path("model.safetensors"))
        self.assertLess(weights, 1.1 * os.path.getsize(path))
        # A step has its weights once, but for the table of embeddings, which is also the one of rows.
        step = self.compile(path, "--entry", "step")
        self.assertLess(os.path.getsize(step), 1.5 * os.path.getsize(path))

    def test_default_outputs(self):
        """Beside the model, by its name."""
        shutil.copytree(os.path.join(FIXTURES, "llama"), self.path("folder"))
        gguf.write(self.path("model.gguf"), self.metadata(), self.make("llama")[0])
        inside = sorted(os.listdir(self.path("folder")))
        quantize = ["quantize", "--scheme", "w8a8-dynamic", "--force"]
        for verb, model, output in ((["compile"], "model.gguf", "model.rvm"), (["compile"], "folder", "folder.rvm"),
                                    (["compile"], "folder/", "folder.rvm"), (quantize, "folder/", "folder.quantized.rvm")):
            with self.subTest(verb=verb[0], model=model):
                relayvm.must(relayvm.COMPILER, *verb, self.path(model), "-O0", "--target", "portable", "--entry", "step")
                os.remove(self.path(output))
        self.assertEqual(sorted(os.listdir(self.path("folder"))), inside)
        self.assertEqual(sorted(os.listdir(self.folder)), ["folder", "model.gguf"])

    def test_refusals(self):
        stored, _ = self.make("llama")
        path = self.path("model.gguf")
        stored["blk.0.attn_q.weight"] = ("Q5_K", (256, 256), bytes(256 * 176))
        stored["blk.1.attn_q.weight"] = ("?", (256, 256), b"")
        gguf.write(path, self.metadata(**{"rope.scaling.type": "yarn"}), stored)
        shown = self.error(path)
        self.assertIn("Q5_K: tensors of this type are not supported; expected F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K "
                      "(`blk.0.attn_q.weight`)", shown)
        self.assertIn("type 99: tensors of this type", shown)
        self.assertIn("saw `yarn`; expected `none` or `linear`", shown)
        gguf.write(path, self.metadata("mamba"), stored)
        shown = self.error(path)
        self.assertIn("saw `mamba`; expected one of gemma", shown)
        self.assertIn("Q5_K: tensors of this type", shown)
        gguf.write(path, self.metadata(), stored, version=1)
        self.assertIn("saw GGUF of version 1; expected 2 or 3", self.error(path))
        with open(path, "wb") as file:
            file.write(b"GGML")
        self.assertIn("begins with `GGML`; expected GGUF", self.error(path))
        self.assertIn("has no such options", relayvm.run(relayvm.COMPILER, "check", path, "--shape", "x=1").stderr)

    def test_refused_metadata(self):
        positive = "expected a number above 0"
        stored, _ = self.make("llama")
        path = self.path("model.gguf")
        for architecture, changes, expected in (
                ("llama", {"rope.freq_base": 0.0}, positive),
                ("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": -1.0}, positive),
                ("gemma3", {"rope.freq_base_swa": 0.0, "attention.sliding_window": 16}, positive),
                ("llama", {"rope.freq_base": float("inf")}, "expected a number that is finite in float32"),
                ("llama", {"expert_count": 8}, "saw `8`; expected a model without experts"),
                ("llama", {"attention.head_count": 1000, "attention.head_count_kv": 1000},
                 "saw 1000 heads for states of 256 elements; expected at most as many heads"),
                ("gpt2", {"context_length": 64}, "saw `4`; expected 8 (`attention.head_count_kv`)")):
            with self.subTest(architecture, **changes):
                gguf.write(path, self.metadata(architecture, **changes), stored)
                self.assertIn(expected, self.error(path))
        gguf.write(path, {**self.metadata(), "tokenizer.ggml.eot_token_id": (1 << 32) - 1}, stored)
        self.assertIn("saw the token 4294967295; expected an int32", self.error(path))
        gguf.write(path, self.metadata(), {**stored, "large": ("Q8_0", (1 << 40, 1 << 40), b"")})
        self.assertIn("tensor `large`: its shape is too large", self.error(path))
        gguf.write(path, {**self.metadata(), "nested": [["a"], ["b"]]}, stored)
        self.assertIn("metadata of an unknown type", self.error(path))
        # A model without experts may say so.
        gguf.write(path, self.metadata(expert_count=0), stored)
        relayvm.must(relayvm.COMPILER, "check", path)

    def test_damaged_files(self):
        """Prefixes of a file: a message."""
        stored, _ = self.make("llama")
        path = self.path("model.gguf")
        gguf.write(path, self.metadata(), stored)
        with open(path, "rb") as file:
            content = file.read()
        for size in (0, 3, 8, 20, 24, 60, 300, 1000, len(content) // 2):
            with open(path, "wb") as file:
                file.write(content[:size])
            self.assertIn("model.gguf", self.error(path))
