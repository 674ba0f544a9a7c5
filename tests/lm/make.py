"""Writes the fixtures of tests/exported_decoders_test.py: language models as exporters write them, and what they decode.

    python3 tests/lm/make.py [FAMILY ...]      with torch, transformers, onnx, onnxscript and onnxruntime

Small models with random weights (weights.py): a Llama, a GPT-2, a T5, a Whisper, a Marian and a Moonshine. Each is a step
with caches as inputs and outputs, exported by PyTorch to ONNX, some by both exporters and as .pt2; the Llama also with caches of
a fixed extent, with the loop inside (Loop), and with the operators that the builder of onnxruntime-genai writes, in floats and
with weights of 4 bits. The texts, hypotheses and logits are those of transformers, and of ONNX Runtime for 4 bits.
"""

import io
import json
import lzma
import os
import sys
import warnings
import zipfile

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
FRAMES, MELS, SAMPLES, SOURCE = 60, 8, 4000, 20
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
    "marian": ("MarianMTModel", "MarianConfig", {
        **BASE, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "max_position_embeddings": ROOM,
        "decoder_start_token_id": 0, "activation_function": "swish", "forced_eos_token_id": None}),
    "moonshine": ("MoonshineForConditionalGeneration", "MoonshineConfig", {
        **BASE, "hidden_size": WIDTH, "intermediate_size": INNER, "encoder_num_hidden_layers": LAYERS,
        "decoder_num_hidden_layers": LAYERS, "encoder_num_attention_heads": HEADS, "decoder_num_attention_heads": HEADS,
        "max_position_embeddings": ROOM, "decoder_start_token_id": 1}),
}
# width, penalty, early
BEAMS = ((2, 0.0, False), (2, 1.0, True), (3, 0.6, False), (3, 2.0, True), (4, 1.0, False), (4, 1.0, True), (4, 0.6, False),
         (5, 1.0, False), (5, 2.0, True))
BEAM_PROMPT, BEAM_LIMIT = 5, 12
EXPORTERS = {"llama": ("dynamo", "script", "program"), "gpt2": ("dynamo", "script", "program"), "t5": ("dynamo", "script"),
             "whisper": ("dynamo", "script"), "marian": ("dynamo", "program"), "moonshine": ("dynamo", "program")}


def make_model(seed):
    """The model of a family and the number of a draw, `llama 3`."""
    name, config, settings = FAMILIES[seed.split()[0]]
    model = getattr(transformers, name)(getattr(transformers, config)(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights.array(seed, key, tuple(parameter.shape))))
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


class Encode(torch.nn.Module):
    """Keys and values of the source, for the attention of each layer of the decoder."""

    def __init__(self, model):
        super().__init__()
        self.model, self.encoder, self.decoder = model, model.get_encoder(), model.get_decoder()

    def forward(self, source):
        states = self.encoder(source).last_hidden_state
        heads = lambda x: x.view(1, -1, HEADS, HEAD).transpose(1, 2)
        result = []
        for i in range(LAYERS):
            if hasattr(self.decoder, "block"):
                attention = self.decoder.block[i].layer[1].EncDecAttention
                result += [heads(attention.k(states)), heads(attention.v(states))]
            else:
                attention = self.decoder.layers[i].encoder_attn
                result += [heads(attention.k_proj(states)), heads(attention.v_proj(states))]
        return tuple(result)


class SourceStep(torch.nn.Module):
    """A step of a decoder that attends to a source, whose keys and values are computed once."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, *caches):
        own, source = transformers.DynamicCache(), transformers.DynamicCache()
        for i in range(LAYERS):
            own.update(caches[2 * i], caches[2 * i + 1], i)
            source.update(caches[2 * (LAYERS + i)], caches[2 * (LAYERS + i) + 1], i)
        both = transformers.EncoderDecoderCache(own, source)
        both.is_updated = {i: True for i in range(LAYERS)}
        output = transformers.models.moonshine.modeling_moonshine.MoonshineEncoderModelOutput  # of any family
        states = output(last_hidden_state=torch.zeros(1, 1, WIDTH))  # only their presence counts
        logits = self.model(encoder_outputs=states, decoder_input_ids=ids, past_key_values=both, use_cache=True).logits
        return (logits, *grown(own))


def cache_names(prefix):
    return [f"{prefix}_{kind}{i}" for i in range(LAYERS) for kind in ("key", "value")]


def dynamic_shapes(module, names, axes):
    dims = {name: torch.export.Dim(name, max=4096) for name in {dim for of in axes.values() for dim in of.values()}}
    flat = [{axis: dims[dim] for axis, dim in axes.get(name, {}).items()} for name in names]
    own = module.forward.__code__.co_argcount - 1
    return (*flat[:own], tuple(flat[own:])) if len(names) > own else tuple(flat)


def export(path, module, inputs, names, outputs, axes, is_dynamo):
    """axes: names of the extents that vary, by input and axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_dynamo:
            torch.onnx.export(module, tuple(inputs), path, input_names=names, output_names=outputs,
                              dynamic_shapes=dynamic_shapes(module, names, axes), dynamo=True, opset_version=OPSET,
                              external_data=False, optimize=True, verbose=False)
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


def without_samples(content):
    """The archive of an exported program without what depends on where it was made: stack traces and sample inputs."""
    def scrubbed(value):
        if isinstance(value, list):
            return [scrubbed(element) for element in value]
        if not isinstance(value, dict):
            return value
        return {key: {} if key == "metadata" else scrubbed(inner) for key, inner in value.items()}

    entries = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            given = archive.read(info)
            if info.filename.endswith("models/model.json"):
                given = json.dumps(scrubbed(json.loads(given))).encode()
            if "/sample_inputs/" not in info.filename:
                entries[info.filename] = given
    return entries


class Layouts:
    """Packs models without their weights, which the test writes anew (weights.py)."""

    def save(self, name, seed, model, proto):
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
            tensors.append(found[0])
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = TensorProto.EXTERNAL
            del tensor.external_data[:]
            for entry, given in (("location", f"{name}.bin"), ("offset", place), ("length", values.nbytes)):
                tensor.external_data.add(key=entry, value=str(given))
            place += values.nbytes + -values.nbytes % weights.ALIGNMENT
        shorten(proto.graph)
        del proto.metadata_props[:]
        self.pack(f"{name}.onnx", [seed, tensors], proto.SerializeToString())

    def save_program(self, name, seed, model, program):
        """An exported program (.pt2)."""
        content = io.BytesIO()
        program.example_inputs = None
        torch.export.save(program, content)
        entries = without_samples(content.getvalue())
        (config,) = [entry for entry in entries if entry.endswith("model_weights_config.json")]
        known = {parameter.detach().numpy().tobytes(): (key, list(parameter.shape))
                 for key, parameter in model.named_parameters() if parameter.numel() >= 64}
        tensors = []
        for one in {given["path_name"] for given in json.loads(entries[config])["config"].values()}:
            entry = os.path.join(os.path.dirname(config), one)
            if entries[entry] in known:
                tensors.append((*known[entries.pop(entry)], entry))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for entry, given in entries.items():
                archive.writestr(zipfile.ZipInfo(entry), given)
        self.pack(f"{name}.pt2", [seed, sorted(tensors)], packed.getvalue())

    def pack(self, file_name, layout, content):
        with lzma.open(os.path.join(HERE, f"{file_name}.xz"), "wb", preset=9) as file:
            file.write(content)
        path, models = os.path.join(HERE, "layouts.json"), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                models = json.load(file)
        models[os.path.splitext(file_name)[0]] = layout
        with open(path, "w", encoding="utf-8") as file:
            rows = (f"{json.dumps(key)}: {json.dumps(given)}" for key, given in sorted(models.items()))
            file.write("{\n" + ",\n".join(rows) + "\n}\n")
        print(f"{file_name}: {len(layout[1])} tensors outside, {os.path.getsize(os.path.join(HERE, file_name + '.xz'))} bytes")


def export_by(exporters, layouts, name, seed, model, module, inputs, names, outputs, axes):
    """Files <name>_<exporter>: of "dynamo" and "script" ONNX, of "program" .pt2."""
    path = os.path.join(HERE, "export.onnx")
    module.eval()  # exporters give the model below the mode of the module
    for exporter in exporters:
        if exporter == "program":
            program = torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic_shapes(module, names, axes))
            layouts.save_program(f"{name}_program", seed, model, program)
            continue
        export(path, module, inputs, names, outputs, axes, exporter == "dynamo")
        layouts.save(f"{name}_{exporter}", seed, model, onnx.load(path))
        os.remove(path)


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
    return kept, min(gaps)


def searched(model, inputs, prompt):
    """The hypotheses of each search, without the stop token and with -1 behind them, and their scores."""
    kept, apart = {}, []
    given = {**inputs, "decoder_input_ids" if inputs else "input_ids": prompt}
    for i, (width, penalty, early) in enumerate(BEAMS):
        found = transformers.GenerationMixin.generate(
            model, **given, num_beams=width, length_penalty=penalty, early_stopping=early, num_return_sequences=width,
            max_new_tokens=BEAM_LIMIT, do_sample=False, return_dict_in_generate=True, output_scores=True)
        texts = [row[BEAM_PROMPT:].tolist() for row in found.sequences]
        texts = [text[:text.index(2)] if 2 in text else text for text in texts]
        kept[f"beams{i}"] = np.array([text + [-1] * (BEAM_LIMIT - len(text)) for text in texts], "int32")
        kept[f"scores{i}"] = found.sequences_scores.numpy()
        apart.append(-np.diff(kept[f"scores{i}"]).min())
    return kept, min(apart)


def drawn(family, behind, inputs, first=None):
    """The first draw of weights whose texts vary, and whose tokens and hypotheses lie apart; `behind(model, tokens)`: logits."""
    tokens = tokens_of(first)
    for draw in range(1000):
        model = make_model(f"{family} {draw}")
        kept, gap = decoded(lambda text, model=model: behind(model, text), tokens)
        if gap < 5e-3 or min(len(set(kept[f"text{prompt}"].tolist())) for prompt in PROMPTS) < 5:
            continue
        searches, apart = searched(model, inputs, torch.tensor([tokens[:BEAM_PROMPT]]))
        if apart > 1e-3:
            print(family, "draw", draw, "gaps", gap, apart, {prompt: kept[f"text{prompt}"].tolist() for prompt in PROMPTS})
            return f"{family} {draw}", model, {**kept, **searches}
    raise ValueError(f"no weights of {family} whose texts vary")


def save_expected(name, kept):
    np.savez_compressed(os.path.join(HERE, f"{name}.npz"), **kept)


def tokens_of(first=None):
    tokens = np.random.RandomState(3).randint(3, VOCABULARY, 200).tolist()
    return tokens if first is None else [first, *tokens[1:]]


def logits_of(model, tokens, **given):
    with torch.no_grad():
        return model(**given, **{"decoder_input_ids" if given else "input_ids": torch.tensor([tokens])}).logits[0, -1].numpy()


def make_decoder(family, layouts):
    seed, model, expected = drawn(family, logits_of, {})
    save_expected(family, expected)
    heads = KEY_HEADS if family == "llama" else HEADS
    past = [torch.zeros(1, heads, 6, HEAD) for _ in range(2 * LAYERS)]
    ids = torch.tensor([[5, 6, 7]])
    outputs = ["logits", *cache_names("present")]
    axes = {"ids": {1: "t"}, **{name: {2: "past"} for name in cache_names("past")}}
    export_by(EXPORTERS[family], layouts, family, seed, model, Step(model), [ids, *past], ["ids", *cache_names("past")], outputs, axes)
    if family == "llama":
        make_other_llamas(layouts, seed, model, ids, past, outputs, axes)


def make_other_llamas(layouts, seed, model, ids, past, outputs, axes):
    path = os.path.join(HERE, "export.onnx")
    room = [torch.zeros(1, KEY_HEADS, ROOM, HEAD) for _ in range(2 * LAYERS)]
    export(path, FixedStep(model).eval(), [ids, torch.tensor([0, 1, 2]), *room], ["ids", "positions", *cache_names("past")], outputs,
           {"ids": {1: "t"}, "positions": {0: "t"}}, True)
    layouts.save("llama_fixed", seed, model, onnx.load(path))
    export(path, Step(model).eval(), [ids, *past], ["ids", *cache_names("past")], outputs, axes, False)
    layouts.save("llama_loop", seed, model, wrap_in_loop(onnx.load(path)))
    os.remove(path)
    layouts.save("llama_builder", seed, model, build(model, False))
    codes = build(model, True)
    session = onnxruntime.InferenceSession(codes.SerializeToString(), providers=["CPUExecutionProvider"])
    layouts.save("llama_builder_int4", seed, model, codes)

    def behind_codes(tokens):
        feed = {name: np.zeros((1, KEY_HEADS, 0, HEAD), "float32") for name in cache_names("past")}
        feed.update(input_ids=np.array([tokens]), attention_mask=np.ones((1, len(tokens)), "int64"))
        return session.run(["logits"], feed)[0][0, -1]

    kept, gap = decoded(behind_codes, tokens_of())
    print("codes: gap", gap)
    save_expected("llama_builder_int4", kept)


def source_of(family):
    dice = np.random.RandomState(4)
    if family == "whisper":
        return (dice.randint(-64, 65, (1, MELS, FRAMES)) / 32).astype("float32")
    if family == "moonshine":
        return (dice.randint(-8, 9, (1, SAMPLES)) / 8).astype("float32")
    return dice.randint(3, VOCABULARY, (1, SOURCE))


def make_encoder_decoder(family, layouts):
    source = source_of(family)
    name = {"whisper": "input_features", "moonshine": "input_values"}.get(family, "input_ids")
    given = {name: torch.from_numpy(source)}
    first = FAMILIES[family][2]["decoder_start_token_id"]
    seed, model, expected = drawn(family, lambda model, tokens: logits_of(model, tokens, **given), given, first)
    save_expected(family, {**expected, "source": source})
    axes = {"source": {1: "s"}} if source.dtype == np.int64 else {}
    export_by(EXPORTERS[family], layouts, f"{family}_encoder", seed, model, Encode(model), [given[name]], ["source"],
              cache_names("source"), axes)
    past = [torch.zeros(1, HEADS, 6, HEAD) for _ in range(2 * LAYERS)]
    read = [torch.zeros(1, HEADS, 11, HEAD) for _ in range(2 * LAYERS)]
    names = ["ids", *cache_names("past"), *cache_names("source")]
    axes = {"ids": {1: "t"}, **{name: {2: "past"} for name in cache_names("past")}, **{name: {2: "s"} for name in cache_names("source")}}
    export_by(EXPORTERS[family], layouts, f"{family}_step", seed, model, SourceStep(model), [torch.tensor([[5, 6, 7]]), *past, *read],
              names, ["logits", *cache_names("present")], axes)


def main():
    layouts = Layouts()
    for family in sys.argv[1:] or FAMILIES:
        (make_decoder if family in ("llama", "gpt2") else make_encoder_decoder)(family, layouts)


if __name__ == "__main__":
    main()
