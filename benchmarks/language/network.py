"""A Llama with random weights: as a folder, as a GGUF file, and as ONNX, with caches that grow or of a fixed size."""

import json
import os
import struct

import numpy as np

import gguf

BASE, EPSILON = 10000.0, 1e-5


class Sizes:
    """Layers, width, inner width, heads of queries, heads of keys, tokens of the vocabulary."""

    def __init__(self, layers=12, width=768, inner=2048, heads=12, key_heads=4, vocabulary=32000):
        self.layers, self.width, self.inner = layers, width, inner
        self.heads, self.key_heads, self.vocabulary = heads, key_heads, vocabulary
        self.head = width // heads

    def shapes(self):
        """Shapes of the tensors of a folder, by their names."""
        shapes = {"model.embed_tokens.weight": (self.vocabulary, self.width), "lm_head.weight": (self.vocabulary, self.width),
                  "model.norm.weight": (self.width,)}
        for i in range(self.layers):
            rows = {"self_attn.q_proj": self.width, "self_attn.k_proj": self.key_heads * self.head,
                    "self_attn.v_proj": self.key_heads * self.head, "self_attn.o_proj": self.width,
                    "mlp.gate_proj": self.inner, "mlp.up_proj": self.inner}
            for name, count in rows.items():
                shapes[f"model.layers.{i}.{name}.weight"] = (count, self.width)
            shapes[f"model.layers.{i}.mlp.down_proj.weight"] = (self.width, self.inner)
            for name in ("input_layernorm", "post_attention_layernorm"):
                shapes[f"model.layers.{i}.{name}.weight"] = (self.width,)
        return shapes

    def count(self):
        return sum(int(np.prod(shape)) for shape in self.shapes().values())

    def weights(self):
        dice = np.random.default_rng(0)
        return {name: dice.standard_normal(shape, "f4") * np.float32(0.03) + np.float32(len(shape) == 1)
                for name, shape in self.shapes().items()}


def write_folder(path, sizes, weights, kind):
    """Writes a folder with weights of `kind`: F32 or BF16."""
    os.makedirs(path)
    config = {"model_type": "llama", "num_hidden_layers": sizes.layers, "hidden_size": sizes.width,
              "intermediate_size": sizes.inner, "vocab_size": sizes.vocabulary, "num_attention_heads": sizes.heads,
              "num_key_value_heads": sizes.key_heads, "rope_theta": BASE, "rms_norm_eps": EPSILON}
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    stored = {name: gguf.plain(kind, array)[0] for name, array in weights.items()}
    header, place = {}, 0
    for name, data in stored.items():
        header[name] = {"dtype": kind, "shape": list(weights[name].shape), "data_offsets": [place, place + len(data)]}
        place += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data in stored.values():
            file.write(data)


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def for_pairs(sizes, name, matrix):
    """A matrix as GGUF has it: rotated elements of queries and keys lie side by side there, not half a head apart."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return matrix
    return matrix.reshape(-1, 2, sizes.head // 2, sizes.width).swapaxes(1, 2).reshape(matrix.shape)


def write_gguf(path, sizes, kind, weights=None):
    """Writes a GGUF file whose matrices have the weights, or are random blocks, of `kind`."""
    dice, stored = np.random.default_rng(0), {}
    for name, shape in sizes.shapes().items():
        parts = name.removesuffix(".weight").split(".", 3)
        own = {"model.embed_tokens.weight": "token_embd", "lm_head.weight": "output", "model.norm.weight": "output_norm"}.get(
            name) or f"blk.{parts[2]}.{NAMES[parts[3]]}"
        is_norm = len(shape) == 1
        form = "F32" if is_norm else kind
        if weights is None:
            stored[f"{own}.weight"], _ = gguf.random(dice, form, shape, shift=1 if is_norm else 0)
        else:
            stored[f"{own}.weight"] = form, shape, gguf.plain(form, for_pairs(sizes, name, weights[name]))[0]
    gguf.write(path, {"general.architecture": "llama", "llama.block_count": sizes.layers, "llama.embedding_length": sizes.width,
                      "llama.feed_forward_length": sizes.inner, "llama.attention.head_count": sizes.heads,
                      "llama.attention.head_count_kv": sizes.key_heads, "llama.rope.freq_base": BASE,
                      "llama.attention.layer_norm_rms_epsilon": EPSILON, "llama.context_length": 8192,
                      "llama.rope.dimension_count": sizes.head, "llama.vocab_size": sizes.vocabulary,
                      "tokenizer.ggml.model": "no_vocab"}, stored)


class Builder:
    """The model as ONNX: in plain operators with caches that grow, as exporters write it, or with ONNX Runtime's operator of
    attention with caches of `room` tokens, as the builder of onnxruntime-genai does."""

    def __init__(self, sizes, weights, room=0):
        from onnx import helper, numpy_helper  # pylint: disable=import-outside-toplevel

        self.helper, self.numpy_helper = helper, numpy_helper
        self.sizes, self.weights, self.room = sizes, weights, room
        self.nodes, self.constants = [], []

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=np.float32):
        name = f"w{len(self.constants)}"
        self.constants.append(self.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def integers(self, *values):
        return self.constant(values, np.int64)

    def dense(self, x, name):
        return self.node("MatMul", x, self.constant(self.weights[f"{name}.weight"].T))

    def norm(self, x, name):
        weight = self.constant(self.weights[f"{name}.weight"])
        if self.room:
            return self.node("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=EPSILON, stash_type=1)
        square = self.node("ReduceMean", self.node("Mul", x, x), self.integers(-1))
        root = self.node("Sqrt", self.node("Add", square, self.constant(EPSILON)))
        return self.node("Mul", self.node("Div", x, root), weight)

    def heads(self, x, count):
        return self.node("Transpose", self.node("Reshape", x, self.integers(0, 0, count, self.sizes.head)), perm=(0, 2, 1, 3))

    def rotated(self, x):
        half = self.sizes.head // 2
        a, b = self.node("Split", x, self.integers(half, half), outputs=2, axis=-1)
        turned = self.node("Concat", self.node("Neg", b), a, axis=-1)
        return self.node("Add", self.node("Mul", x, self.cos), self.node("Mul", turned, self.sin))

    def frequencies(self):
        return BASE ** (-np.arange(0, self.sizes.head, 2) / self.sizes.head)

    def positions(self):
        """The mask of tokens, and the cosines and sines of their rotations."""
        now = self.node("Shape", "tokens", start=1, end=2)
        past = self.node("Shape", "past_key_0", start=2, end=3)
        scalar = lambda x: self.node("Squeeze", x, self.integers(0))
        end = scalar(self.node("Add", now, past))
        one, zero = self.constant(1, np.int64), self.constant(0, np.int64)
        queries, keys = self.node("Range", scalar(past), end, one), self.node("Range", zero, end, one)
        is_seen = self.node("LessOrEqual", keys, self.node("Unsqueeze", queries, self.integers(1)))
        self.mask = self.node("Where", is_seen, self.constant(0), self.constant(-np.inf))
        column = self.node("Cast", self.node("Unsqueeze", queries, self.integers(1)), to=1)
        angles = self.node("Mul", column, self.constant(np.concatenate([self.frequencies()] * 2)))
        self.cos, self.sin = self.node("Cos", angles), self.node("Sin", angles)

    def attention(self, a, i):
        sizes, prefix = self.sizes, f"model.layers.{i}.self_attn."
        q, k, v = (self.dense(a, f"{prefix}{name}_proj") for name in "qkv")
        if self.room:
            y = self.node("GroupQueryAttention", q, k, v, f"past_key_{i}", f"past_value_{i}", "last", "total", self.cos, self.sin,
                          outputs=3, domain="com.microsoft", num_heads=sizes.heads, kv_num_heads=sizes.key_heads, do_rotary=1)
            self.nodes[-1].output[1:] = [f"key_{i}", f"value_{i}"]
            return self.dense(y[0], f"{prefix}o_proj")
        q, k = self.rotated(self.heads(q, sizes.heads)), self.rotated(self.heads(k, sizes.key_heads))
        parts = []
        for name, own in (("key", k), ("value", self.heads(v, sizes.key_heads))):
            joined = self.node("Concat", f"past_{name}_{i}", own, axis=2)
            self.nodes[-1].output[0] = joined = f"{name}_{i}"
            shared = self.node("Expand", self.node("Unsqueeze", joined, self.integers(2)),
                               self.integers(1, 1, sizes.heads // sizes.key_heads, 1, 1))
            parts.append(self.node("Reshape", shared, self.integers(0, sizes.heads, -1, sizes.head)))
        scores = self.node("MatMul", q, self.node("Transpose", parts[0], perm=(0, 1, 3, 2)))
        scores = self.node("Add", self.node("Mul", scores, self.constant(1 / np.sqrt(sizes.head))), self.mask)
        y = self.node("Transpose", self.node("MatMul", self.node("Softmax", scores, axis=-1), parts[1]), perm=(0, 2, 1, 3))
        return self.dense(self.node("Reshape", y, self.integers(0, 0, sizes.width)), f"{prefix}o_proj")

    def make(self):
        sizes, helper = self.sizes, self.helper
        if self.room:
            angles = np.arange(self.room)[:, None] * self.frequencies()
            self.cos, self.sin = self.constant(np.cos(angles)), self.constant(np.sin(angles))
        else:
            self.positions()
        x = self.node("Gather", self.constant(self.weights["model.embed_tokens.weight"]), "tokens")
        for i in range(sizes.layers):
            prefix = f"model.layers.{i}."
            x = self.node("Add", x, self.attention(self.norm(x, f"{prefix}input_layernorm"), i))
            a = self.norm(x, f"{prefix}post_attention_layernorm")
            gate = self.dense(a, f"{prefix}mlp.gate_proj")
            inner = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), self.dense(a, f"{prefix}mlp.up_proj"))
            x = self.node("Add", x, self.dense(inner, f"{prefix}mlp.down_proj"))
        last = self.node("Slice", x, self.integers(-1), self.integers(2**62), self.integers(1))
        self.dense(self.norm(last, "model.norm"), "lm_head")
        self.nodes[-1].output[0] = "logits"
        kinds = [("key", i) for i in range(sizes.layers)] + [("value", i) for i in range(sizes.layers)]
        extent = self.room or "past"
        cache = lambda name: helper.make_tensor_value_info(name, 1, [1, sizes.key_heads, extent if "past" in name else None, sizes.head])
        inputs = [helper.make_tensor_value_info("tokens", 7, [1, "count"]), *(cache(f"past_{kind}_{i}") for kind, i in kinds)]
        if self.room:
            inputs += [helper.make_tensor_value_info("last", 6, [1]), helper.make_tensor_value_info("total", 6, [])]
        outputs = [helper.make_tensor_value_info("logits", 1, [1, 1, sizes.vocabulary]), *(cache(f"{kind}_{i}") for kind, i in kinds)]
        graph = helper.make_graph(self.nodes, "llama", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)
