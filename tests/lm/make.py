"""Writes the fixtures of tests/exported_decoders_test.py: language models as exporters write them, and what they decode.

    python3 tests/lm/make.py [FAMILY ...]      with torch, transformers, onnx, onnxscript and onnxruntime

Small models with random weights, scaled so that logits lie apart: a Llama and a GPT-2. Each is a step
with caches as inputs and outputs, exported by both exporters of PyTorch; the Llama also with caches of a fixed extent, with
the loop inside (Loop), and with the operators that the builder of onnxruntime-genai writes, in floats and with weights of 4
bits. The texts and logits are those of transformers, and of ONNX Runtime for 4 bits.
"""

import json
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
import weights
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = (1, 63, 64, 65, 200)
PROMPTS, COMPLETION = (1, 5, 9), 24
VOCABULARY, WIDTH, LAYERS, HEADS, KEY_HEADS, INNER, ROOM = 96, 64, 2, 4, 2, 96, 256
HEAD = WIDTH // HEADS
OPSET = 18
BASE = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {
        **BASE, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS, "max_position_embeddings": ROOM}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {
        **BASE, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": INNER, "n_positions": ROOM}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {
        **BASE, "d_model": WIDTH, "d_kv": HEAD, "d_ff": INNER, "num_layers": LAYERS, "num_heads": HEADS,
        "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", {
        **BASE, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "num_mel_bins": MELS,
        "max_source_positions": FRAMES // 2, "max_target_positions": ROOM, "decoder_start_token_id": 1,
        "suppress_tokens": None, "begin_suppress_tokens": None}),
}


def scale_of(name, shape):
    """Spread and shift of a tensor."""
    if len(shape) == 1:
        return (0.25, 1.0) if ("norm" in name or "ln_" in name) and name.endswith("weight") else (0.25, 0.0)
    return (0.25, 0.0) if any(part in name for part in ("embed", "wte", "wpe")) else (0.5, 0.0)


def make_model(family):
    name, config, settings = FAMILIES[family]
    model = getattr(transformers, name)(getattr(transformers, config)(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.from_numpy(weights.array(family, key, tuple(parameter.shape), *scale_of(key, parameter.shape))))
    return model


# ---- steps: modules whose caches are inputs and outputs, keys and values of each layer

def grown(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class Step(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, *past):
        cache = transformers.DynamicCache()
        for i in range(LAYERS):
            cache.update(past[2 * i], past[2 * i + 1], i)
        return (self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits, *grown(cache))


class FixedCache(transformers.DynamicCache):
    """Caches with room for all tokens: new ones are written at their positions."""

    def __init__(self, caches, positions):
        super().__init__()
        self.caches, self.positions = list(caches), positions

    def update(self, key_states, value_states, layer_idx, *unused_args, **unused_options):
        for which, states in ((2 * layer_idx, key_states), (2 * layer_idx + 1, value_states)):
            self.caches[which] = self.caches[which].index_copy(2, self.positions, states)
        return self.caches[2 * layer_idx], self.caches[2 * layer_idx + 1]


class FixedStep(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, positions, *caches):
        cache = FixedCache(caches, positions)
        mask = torch.where(torch.arange(ROOM)[None, :] <= positions[:, None], 0.0, float("-inf"))[None, None]
        logits = self.model(input_ids=ids, position_ids=positions[None], attention_mask=mask, past_key_values=cache,
                            use_cache=True).logits
        return (logits, *cache.caches)


def cache_names(prefix):
    return [f"{prefix}_{kind}{i}" for i in range(LAYERS) for kind in ("key", "value")]


def export(path, module, inputs, names, outputs, axes, is_dynamo):
    """axes: names of the extents that vary, by input and axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_dynamo:
            dims = {name: torch.export.Dim(name, max=4096) for name in {dim for of in axes.values() for dim in of.values()}}
            flat = [{axis: dims[dim] for axis, dim in axes.get(name, {}).items()} for name in names]
            kind = module.forward.__code__.co_varnames[1:module.forward.__code__.co_argcount]
            shapes = [*flat[:len(kind)]] + ([tuple(flat[len(kind):])] if len(names) > len(kind) else [])
            torch.onnx.export(module, tuple(inputs), path, input_names=names, output_names=outputs, dynamic_shapes=tuple(shapes),
                              dynamo=True, opset_version=OPSET, external_data=False, optimize=True, verbose=False)
        else:
            torch.onnx.export(module, tuple(inputs), path, input_names=names, output_names=outputs,
                              dynamic_axes={name: of for name, of in axes.items()}, dynamo=False, opset_version=17)


# ---- files

def shorten(graph, names=None):
    """Numbers for the names of nodes and values, which exporters make of paths of modules."""
    names = {} if names is None else names
    kept = {value.name for value in (*graph.input, *graph.output)}
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        del node.metadata_props[:]
        for i, name in enumerate(node.output):
            if name and name not in kept:
                names[name] = node.output[i] = f"v{len(names)}"
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                shorten(attribute.g, names)
    del graph.value_info[:]


class Layouts:
    """Moves the weights of models into files beside them, which the test writes anew."""

    def __init__(self):
        self.path = os.path.join(HERE, "layouts.json")
        self.models = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.models = json.load(file)

    def save(self, name, family, model, proto):
        known = {}
        for key, parameter in model.named_parameters():
            known.setdefault(tuple(parameter.shape), []).append((key, parameter.detach().numpy()))
        tensors, place = [], 0
        for tensor in proto.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.size < 64 or values.dtype != np.float32:
                continue
            found = [(key, list(given.shape), is_transposed)
                     for is_transposed in (False, True) if not is_transposed or values.ndim == 2
                     for key, given in known.get((values.T if is_transposed else values).shape, [])
                     if np.array_equal(given, values.T if is_transposed else values)]
            if not found:
                continue
            key, shape, is_transposed = found[0]
            tensors.append([key, shape, *scale_of(key, shape), is_transposed])
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = TensorProto.EXTERNAL
            del tensor.external_data[:]
            for entry, given in (("location", f"{name}.bin"), ("offset", place), ("length", values.nbytes)):
                tensor.external_data.add(key=entry, value=str(given))
            place += values.nbytes + -values.nbytes % weights.ALIGNMENT
        shorten(proto.graph)
        del proto.metadata_props[:]
        with open(os.path.join(HERE, f"{name}.onnx"), "wb") as file:
            file.write(proto.SerializeToString())
        self.models[name] = [family, tensors]
        with open(self.path, "w", encoding="utf-8") as file:
            rows = (f"{json.dumps(key)}: {json.dumps(given)}" for key, given in sorted(self.models.items()))
            file.write("{\n" + ",\n".join(rows) + "\n}\n")
        print(f"{name}: {len(tensors)} tensors outside, {os.path.getsize(os.path.join(HERE, name + '.onnx'))} bytes")


def export_both(layouts, name, family, model, module, inputs, names, outputs, axes):
    for is_dynamo in (True, False):
        path = os.path.join(HERE, "export.onnx")
        export(path, module, inputs, names, outputs, axes, is_dynamo)
        layouts.save(f"{name}_{'dynamo' if is_dynamo else 'script'}", family, model, onnx.load(path))
        os.remove(path)
        if os.path.exists(path + ".data"):
            os.remove(path + ".data")


# ---- the loop inside of a model

def wrap_in_loop(step):
    """A model of the ids of a prompt and a number of tokens: a Loop around the step, whose caches it carries."""
    make, info = helper.make_node, helper.make_tensor_value_info
    past, present = cache_names("past"), cache_names("present")
    cache = lambda name, extent: info(name, TensorProto.FLOAT, [1, KEY_HEADS, extent, HEAD])
    integers = lambda name, values: numpy_helper.from_array(np.array(values, "int64"), name)
    nodes = [*step.graph.node,
             make("Gather", ["logits", "loop_last"], ["loop_row"], axis=1),
             make("ArgMax", ["loop_row"], ["loop_best"], axis=-1, keepdims=1),
             make("Reshape", ["loop_best", "loop_matrix"], ["next_ids"]),
             make("Reshape", ["loop_best", "loop_vector"], ["token"]),
             make("Equal", ["token", "loop_stop"], ["loop_is_stop"]),
             make("Not", ["loop_is_stop"], ["loop_goes"]),
             make("Squeeze", ["loop_goes"], ["goes_on"])]
    body = helper.make_graph(
        nodes, "step",
        [info("iteration", TensorProto.INT64, []), info("went_on", TensorProto.BOOL, []),
         info("ids", TensorProto.INT64, [1, "t"]), *(cache(name, "past") for name in past)],
        [info("goes_on", TensorProto.BOOL, []), info("next_ids", TensorProto.INT64, [1, 1]),
         *(cache(name, "all") for name in present), info("token", TensorProto.INT64, [1])])
    constants = [integers("loop_last", [-1]), integers("loop_matrix", [1, 1]), integers("loop_vector", [1]),
                 integers("loop_stop", [2]),
                 numpy_helper.from_array(np.zeros((1, KEY_HEADS, 0, HEAD), "float32"), "loop_empty")]
    loop = make("Loop", ["limit", "", "prompt", *["loop_empty"] * len(past)],
                ["last_ids", *(f"last_{name}" for name in past), "tokens"], body=body)
    graph = helper.make_graph([loop], "text", [info("prompt", TensorProto.INT64, [1, "n"]), info("limit", TensorProto.INT64, [])],
                              [info("tokens", TensorProto.INT64, ["count", 1])], [*step.graph.initializer, *constants])
    return helper.make_model(graph, opset_imports=step.opset_import, ir_version=step.ir_version)


# ---- the operators of onnxruntime-genai's builder

def build(model, has_codes):
    """The Llama as the builder writes it; with codes of 4 bits in blocks of 32 if `has_codes`."""
    parameters = {key: given.detach().numpy() for key, given in model.named_parameters()}
    nodes, constants = [], []

    def constant(name, values):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(op, inputs, outputs, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def product(name, x, weight):
        if not has_codes:
            return node("MatMul", [x, constant(f"{name}_weight", weight.T)], [name], domain="")
        rows, depth = weight.shape
        blocks = weight.reshape(rows, depth // 32, 32)
        scales = np.abs(blocks).max(axis=2) / 7
        codes = (np.rint(blocks / scales[..., None]).astype(int) + 8).astype("uint8")
        packed = codes[..., 0::2] | codes[..., 1::2] << 4
        return node("MatMulNBits", [x, constant(f"{name}_codes", packed), constant(f"{name}_scales", scales.astype("float32"))],
                    [name], K=depth, N=rows, bits=4, block_size=32)

    positions = np.arange(ROOM)[:, None] / 10000.0 ** (np.arange(0, HEAD, 2) / HEAD)
    cos, sin = constant("cos", np.cos(positions).astype("float32")), constant("sin", np.sin(positions).astype("float32"))
    norm = {"epsilon": model.config.rms_norm_eps}
    node("ReduceSum", ["attention_mask", constant("axis", np.array([1], "int64"))], ["total"], domain="", keepdims=0)
    node("Sub", ["total", constant("one", np.array([1], "int64"))], ["before"], domain="")
    node("Cast", ["before"], ["lengths"], domain="", to=TensorProto.INT32)
    node("Gather", [node("Shape", ["attention_mask"], ["shape"], domain=""), constant("second", np.array(1, "int64"))], ["all"], domain="")
    node("Cast", ["all"], ["extent"], domain="", to=TensorProto.INT32)
    x = node("Gather", [constant("words", parameters["model.embed_tokens.weight"]), "input_ids"], ["x"], domain="")
    h = node("SimplifiedLayerNormalization", [x, constant("norm", parameters["model.layers.0.input_layernorm.weight"])], ["h"],
             domain="", axis=-1, stash_type=1, **norm)
    for i in range(LAYERS):
        weight = lambda part, i=i: parameters[f"model.layers.{i}.{part}.weight"]
        q, k, v = (product(f"{kind}{i}", h, weight(f"self_attn.{kind}_proj")) for kind in "qkv")
        attended = node("GroupQueryAttention", [q, k, v, f"past_key{i}", f"past_value{i}", "lengths", "extent", cos, sin],
                        [f"attended{i}", f"present_key{i}", f"present_value{i}"], num_heads=HEADS, kv_num_heads=KEY_HEADS,
                        do_rotary=1, rotary_interleaved=0, scale=HEAD ** -0.5)
        added = product(f"o{i}", attended, weight("self_attn.o_proj"))
        h = node("SkipSimplifiedLayerNormalization",
                 [x, added, constant(f"middle{i}", weight("post_attention_layernorm"))], [f"m{i}", "", "", f"y{i}"], **norm)
        gate = product(f"gate{i}", h, weight("mlp.gate_proj"))
        inner = node("Mul", [node("Mul", [gate, node("Sigmoid", [gate], [f"sigmoid{i}"], domain="")], [f"silu{i}"], domain=""),
                             product(f"up{i}", h, weight("mlp.up_proj"))], [f"inner{i}"], domain="")
        last = parameters["model.norm.weight"] if i == LAYERS - 1 else parameters[f"model.layers.{i + 1}.input_layernorm.weight"]
        h = node("SkipSimplifiedLayerNormalization",
                 [f"y{i}", product(f"down{i}", inner, weight("mlp.down_proj")), constant(f"last{i}", last)],
                 [f"h{i}", "", "", f"x{i}"], **norm)
        x = f"x{i}"
    product("logits", h, parameters["lm_head.weight"])
    info = helper.make_tensor_value_info
    cache = lambda name, extent: info(name, TensorProto.FLOAT, [1, KEY_HEADS, extent, HEAD])
    graph = helper.make_graph(
        nodes, "builder",
        [info("input_ids", TensorProto.INT64, [1, "t"]), info("attention_mask", TensorProto.INT64, [1, "all"]),
         *(cache(name, "past") for name in cache_names("past"))],
        [info("logits", TensorProto.FLOAT, [1, "t", VOCABULARY]), *(cache(name, "all") for name in cache_names("present"))], constants)
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


# ---- what they decode

def decoded(logits_behind, tokens):
    """Logits behind numbers of tokens, and the likeliest tokens behind three prompts; `logits_behind` a list of tokens."""
    kept = {"tokens": np.array(tokens, "int64"), "logits": np.array([logits_behind(tokens[:place]) for place in PLACES], "float32")}
    gaps = []
    for prompt in PROMPTS:
        text = list(tokens[:prompt])
        for _ in range(COMPLETION):
            row = logits_behind(text)
            best = np.sort(row)[::-1]
            gaps.append(best[0] - best[1])
            text.append(int(row.argmax()))
            if text[-1] == 2:
                break
        kept[f"text{prompt}"] = np.array(text[prompt:], "int64")
    print("least distance of the two likeliest tokens:", min(gaps), {prompt: kept[f"text{prompt}"].tolist() for prompt in PROMPTS})
    return kept


def save_expected(name, kept):
    np.savez_compressed(os.path.join(HERE, f"{name}.npz"), **kept)


def drawn_tokens():
    return np.random.RandomState(3).randint(3, VOCABULARY, 200).tolist()


def make_decoder(family, layouts):
    model = make_model(family)
    heads = KEY_HEADS if family == "llama" else HEADS
    past = [torch.zeros(1, heads, 6, HEAD) for _ in range(2 * LAYERS)]
    ids = torch.tensor([[5, 6, 7]])
    outputs = ["logits", *cache_names("present")]
    axes = {"ids": {1: "t"}, **{name: {2: "past"} for name in cache_names("past")}}
    export_both(layouts, family, family, model, Step(model), [ids, *past], ["ids", *cache_names("past")], outputs, axes)

    def behind(tokens):
        with torch.no_grad():
            return model(torch.tensor([tokens])).logits[0, -1].numpy()

    save_expected(family, decoded(behind, drawn_tokens()))
    if family != "llama":
        return
    path = os.path.join(HERE, "export.onnx")
    room = [torch.zeros(1, KEY_HEADS, ROOM, HEAD) for _ in range(2 * LAYERS)]
    export(path, FixedStep(model), [ids, torch.tensor([0, 1, 2]), *room], ["ids", "positions", *cache_names("past")], outputs,
           {"ids": {1: "t"}, "positions": {0: "t"}}, True)
    layouts.save("llama_fixed", family, model, onnx.load(path))
    export(path, Step(model), [ids, *past], ["ids", *cache_names("past")], outputs, axes, False)
    layouts.save("llama_loop", family, model, wrap_in_loop(onnx.load(path)))
    os.remove(path)
    layouts.save("llama_builder", family, model, build(model, False))
    codes = build(model, True)
    session = onnxruntime.InferenceSession(codes.SerializeToString(), providers=["CPUExecutionProvider"])
    layouts.save("llama_builder_int4", family, model, codes)

    def behind_codes(tokens):
        feed = {name: np.zeros((1, KEY_HEADS, 0, HEAD), "float32") for name in cache_names("past")}
        feed.update(input_ids=np.array([tokens]), attention_mask=np.ones((1, len(tokens)), "int64"))
        return session.run(["logits"], feed)[0][0, -1]

    save_expected("llama_builder_int4", decoded(behind_codes, drawn_tokens()))


def main():
    layouts = Layouts()
    for family in sys.argv[1:] or FAMILIES:
        make_decoder(family, layouts)


if __name__ == "__main__":
    main()
