"""The programs that `./run bench gpu` times, at full size and small, for the interpreter of the tests."""

import collections
import json
import os
import re
import struct
import sys

import numpy as np

import examples_test
import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

HOST = "x86-64-v3"  # the CPU of the machine with the GPU has at least this

# `text`, `path`: what the compiler reads, a text of Relay or a file. `weights`: arrays by name, written as `dtype`.
# `runs`: [(label, arguments)], each argument an array or a text. `steps`: how many of `unit` a run makes.
# `rank`: the order in which programs are timed. `tolerance`: of results, relative to the largest one.
# `target`: the `--target` of the code for the device.
Program = collections.namedtuple("Program", "name text path weights runs unit steps rank tolerance target dtype",
                                 defaults=(5, 1e-4, HOST, "float32"))


def compressible(array):
    """The numbers with three bits of mantissa: a packed folder is small, and the kernels take the same time."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFF00000)).view(np.float32)


class Weights:
    """Random weights, declared as free variables of a program."""

    def __init__(self, dtype="float32"):
        self.random, self.arrays, self.dtype = np.random.default_rng(0), {}, dtype

    def values(self, shape):
        return compressible(self.random.normal(size=shape) / np.sqrt(shape[-1]))

    def declare(self, name, *shape):
        self.arrays[name] = self.values(shape)
        return f"free_var %{name}: Tensor[({', '.join(map(str, shape))},), {self.dtype}];\n"

    def tensor(self, *shape):
        return compressible(self.random.normal(size=shape))


class RepeatedWeights(Weights):
    """Weights for networks of hundreds of megabytes: they repeat within the reach of any packer."""

    PERIOD = 509

    def values(self, shape):
        block = np.roll(np.random.default_rng(7).normal(size=self.PERIOD), 97 * len(self.arrays))
        return compressible(np.resize(block, shape) / np.sqrt(shape[-1]))


def write_safetensors(path, arrays):
    """The arrays as bfloat16."""
    header, blobs, at = {}, [], 0
    for name, array in arrays.items():
        bits = np.ascontiguousarray(array, "<f4").view("<u4")
        blobs.append(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes())
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.writelines([struct.pack("<Q", len(text)), text, *blobs])


HEAD = '#[version = "0.0.5"]\n'


def launches(count):
    """`count` kernels of one element each, one after the other: what a launch costs."""
    body = "".join(f"  let %x{i + 1} = annotation.stop_fusion(%x{i} + 1f);\n" for i in range(count))
    text = f"{HEAD}def @main(%x0: Tensor[(1,), float32]) {{\n{body}  %x{count}\n}}\n"
    return Program("launches", text, None, {}, [("one after the other", [np.zeros(1, np.float32)])], "launch", count, rank=1)


def copies(elements):
    """To the device, one addition, and back."""
    text = f"{HEAD}def @main(%x: Tensor[({elements},), float32]) {{ %x + 1f }}\n"
    return Program("copies", text, None, {}, [(f"{elements * 4 / 2**20:g} MiB there and back", [np.zeros(elements, np.float32)])], "MiB", elements * 8 / 2**20, rank=4)


def product(size, dtype="float32"):
    """A product of two matrices, which the device makes of vectors first; of the result one row is copied back."""
    random = np.random.default_rng(0)
    typed = (lambda value: value) if dtype == "float32" else (lambda value: f'cast({value}, dtype="{dtype}")')
    call = "nn.matmul(%a, %b)" if dtype == "float32" else 'cast(nn.matmul(%a, %b), dtype="float32")'
    text = f"""{HEAD}def @main(%u: Tensor[({size}, 1), float32], %v: Tensor[(1, {size}), float32]) {{
  let %a = annotation.stop_fusion({typed('sin(%u + %v)')});
  let %b = annotation.stop_fusion({typed('cos(%u - %v)')});
  take({call}, 0, axis=0)
}}
"""
    vectors = [random.normal(size=shape).astype(np.float32) for shape in ((size, 1), (1, size))]
    return Program(f"matmul {size}", text, None, {}, [(dtype, vectors)], "GFLOP", 2 * size**3 / 1e9, rank=3,
                   tolerance=1e-3 if dtype == "float32" else 2e-2)


def layers(rows, hidden, inner, dtype, title, **how):
    """Products with biases as in the feed-forward blocks of a network, one after the other: `inner` wide and back."""
    weights, text, body, count = RepeatedWeights(dtype), HEAD, "", 12
    for n in range(count):
        shape = (inner, hidden) if n % 2 == 0 else (hidden, inner)
        text += weights.declare(f"w{n}", *shape) + weights.declare(f"b{n}", shape[0])
        body += f"  let %x{n + 1} = nn.dense(%x{n}, %w{n}) + %b{n};\n"
    if dtype == "float32":
        text += f"def @main(%x0: Tensor[({rows}, {hidden}), float32]) {{\n{body}  %x{count}\n}}\n"
    else:
        text += f"""def @main(%x: Tensor[({rows}, {hidden}), float32]) {{
  let %x0 = cast(%x, dtype="{dtype}");
{body}  cast(%x{count}, dtype="float32")
}}
"""
    return Program(f"dense {rows}x{hidden}x{inner}, {title}", text, None, weights.arrays, [("and back", [weights.tensor(rows, hidden)])], "product", count,
                   **{"rank": 2, "dtype": dtype, **how})


def feed_forward(is_small):
    """Products of few and of many rows, in each type."""
    shapes = [(5, 16, 32)] if is_small else [(16, 768, 768), (128, 768, 768), (128, 768, 3072), (1024, 768, 3072)]
    kinds = [("float32", "float32", {"tolerance": 2e-3}), ("bfloat16", "bfloat16", {"tolerance": 1e-1, "target": "x86-64-v3,sm_80"}),
             ("float32", "TF32", {"tolerance": 5e-2, "target": "x86-64-v3,sm_80+tf32"})]
    return [layers(*shape, dtype, title, **how) for shape in shapes for dtype, title, how in kinds]


def large_tensor(name, call, rows, columns, is_row=False, tolerance=1e-4):
    """An operator of a tensor that the device makes of vectors first; of a tensor as large, one row is copied back."""
    text = f"""{HEAD}def @main(%u: Tensor[({rows}, 1), float32], %v: Tensor[(1, {columns}), float32], %one: Tensor[({columns}), float32]) {{
  let %x = annotation.stop_fusion(sin(%u + %v));
  let %y = annotation.stop_fusion({call});
  {'take(%y, 0, axis=0)' if is_row else '%y'} + {'take(%one, 0)' if 'transpose' in call or not is_row else '%one'}
}}
"""
    arguments = [np.linspace(0, 9, rows, dtype=np.float32)[:, None], np.linspace(0, 5, columns, dtype=np.float32)[None], np.ones(columns, np.float32)]
    return Program(f"{name}, {rows}x{columns}", text, None, {}, [("made there", arguments)], "run", 1, rank=3, tolerance=tolerance)


def recurrent(kind, inputs, units, tokens, lengths=None):
    """An LSTM or a GRU over a sequence of any length, the product with the inputs taken once; of `lengths`, over as many tokens
    of the sequence each time."""
    weights, gates = RepeatedWeights(), {"LSTM": 4, "GRU": 3}[kind]
    state = f"Tensor[(1, {units}), float32]"
    lstm = f"""    let %g = split(%sums, indices_or_sections=4, axis=1);
    let %next = sigmoid(%g.1) * %c + sigmoid(%g.0) * tanh(%g.2);
    @loop(%xs, %i + 1, %n, sigmoid(%g.3) * tanh(%next), %next)
"""
    gru = """    let %g = split(%sums, indices_or_sections=[RU], axis=1);
    let %reset_update = split(sigmoid(%g.0 + nn.dense(%h, %w_ru)), indices_or_sections=2, axis=1);
    let %new = tanh(%g.1 + %reset_update.0 * nn.dense(%h, %w_n));
    @loop(%xs, %i + 1, %n, (1f - %reset_update.1) * %new + %reset_update.1 * %h, %c)
""".replace("RU", str(2 * units))
    text = HEAD + weights.declare("w_x", gates * units, inputs) + weights.declare("bias", gates * units)
    if kind == "LSTM":
        text += weights.declare("w_h", gates * units, units)
        row = "expand_dims(take(%xs, %i, axis=0), axis=0) + nn.dense(%h, %w_h)"
    else:
        text += weights.declare("w_ru", 2 * units, units) + weights.declare("w_n", units, units)
        row = "expand_dims(take(%xs, %i, axis=0), axis=0)"
    text += f"""def @loop[t: ShapeVar](%xs: Tensor[(t, {gates * units}), float32], %i: int32, %n: int32, %h: {state}, %c: {state}) -> {state} {{
  if (%i == %n) {{ %h }} else {{
    let %sums = {row};
{lstm if kind == 'LSTM' else gru}  }}
}}
def @main[t: ShapeVar](%xs: Tensor[(t, {inputs}), float32], %n: int32) -> {state} {{
  let %zero = zeros(shape=[1, {units}], dtype="float32");
  @loop(nn.dense(%xs, %w_x) + %bias, 0, %n, %zero, %zero)
}}
"""
    if lengths is not None:
        head, call = text.rsplit("  @loop(", 1)
        calls = "".join(f"  let %h{n} = @loop(%sums, 0, {length}, %zero, %zero);\n" for n, length in enumerate(lengths))
        text = f"{head}  let %sums = {call[:call.index(', 0, %n')]};\n{calls}  {' + '.join(f'%h{n}' for n in range(len(lengths)))}\n}}\n"
        return Program(f"{kind} {inputs}->{units}, {len(lengths)} lengths", text, None, weights.arrays,
                       [(f"{lengths[0]} to {lengths[-1]} tokens", [weights.tensor(tokens, inputs), str(tokens)])], "token", sum(lengths), rank=1)
    return Program(f"{kind} {inputs}->{units}", text, None, weights.arrays, [(f"{tokens} tokens", [weights.tensor(tokens, inputs), str(tokens)])], "token", tokens,
                   rank=1 if kind == "LSTM" else 2)


def bert(layers, hidden, heads, lengths, dtype="float32", length=None, weights=None, **how):
    """The encoder of Devlin et al. 2018 over embedded tokens, at any length, or for the one `length`."""
    weights, size = weights or Weights(dtype), hidden // heads
    text, body = HEAD, ""
    scale = f"{size ** -0.5!r}f" if dtype == "float32" else f'cast({size ** -0.5!r}f, dtype="{dtype}")'
    for n in range(layers):
        for name, shape in (("q", (hidden, hidden)), ("k", (hidden, hidden)), ("v", (hidden, hidden)), ("o", (hidden, hidden)),
                            ("up", (4 * hidden, hidden)), ("down", (hidden, 4 * hidden))):
            text += weights.declare(f"{name}{n}", *shape) + weights.declare(f"{name}{n}_b", shape[0])
        for name in ("norm1", "norm2"):
            text += weights.declare(f"{name}_{n}_g", hidden) + weights.declare(f"{name}_{n}_b", hidden)
        body += "".join(f"  let %{p}h{n} = transpose(reshape(nn.dense(%x{n}, %{p}{n}) + %{p}{n}_b, newshape=[0, {heads}, -1]), axes=[1, 0, 2]);\n" for p in "qkv")
        body += f"""  let %s{n} = nn.softmax(nn.batch_matmul(%qh{n}, %kh{n}, transpose_b=True) * {scale}, axis=-1);
  let %m{n} = reshape(transpose(nn.batch_matmul(%s{n}, %vh{n}, transpose_b=False), axes=[1, 0, 2]), newshape=[0, -1]);
  let %y{n} = nn.layer_norm(%x{n} + nn.dense(%m{n}, %o{n}) + %o{n}_b, %norm1_{n}_g, %norm1_{n}_b, axis=-1);
  let %f{n} = nn.dense(nn.gelu(nn.dense(%y{n}, %up{n}) + %up{n}_b), %down{n}) + %down{n}_b;
  let %x{n + 1} = nn.layer_norm(%y{n} + %f{n}, %norm2_{n}_g, %norm2_{n}_b, axis=-1);
"""
    names = "" if length else "[n: ShapeVar]"
    if dtype == "float32":
        text += f"def @main{names}(%x0: Tensor[({length or 'n'}, {hidden}), float32]) {{\n{body}  %x{layers}\n}}\n"
    else:
        text += f"""def @main{names}(%input: Tensor[({length or 'n'}, {hidden}), float32]) {{
  let %x0 = cast(%input, dtype="{dtype}");
{body}  cast(%x{layers}, dtype="float32")
}}
"""
    return Program(f"BERT, {layers} layers of {hidden}", text, None, weights.arrays,
                   [(f"length {n}", [weights.tensor(n, hidden)]) for n in lengths], "run", 1, **{"rank": 3, "dtype": dtype, **how})


def bert_base(layers=12, hidden=768, heads=12, length=128):
    """In each type of products."""
    make = lambda dtype, title, **how: bert(layers, hidden, heads, [length], dtype, length, RepeatedWeights(dtype), rank=1, **how)._replace(
        name=f"BERT, {layers} layers of {hidden}, {title}")
    return [make("float32", "float32", tolerance=2e-3), make("bfloat16", "bfloat16", tolerance=1e-1, target="x86-64-v3,sm_80"),
            make("float32", "TF32", tolerance=5e-2, target="x86-64-v3,sm_80+tf32")]


def tree_lstm(nodes, inputs=64, units=64):
    """The example's network, at other widths where they are asked for."""
    folder, reference = os.path.join(relayvm.ROOT, "examples/tree_lstm"), examples_test.load_reference("tree_lstm")
    runs = [(f"{nodes} nodes", [reference.tree_text(reference.make_tree(nodes, np.random.default_rng(1)))])]
    path = f"{folder}/tree_lstm.relay"
    if (inputs, units) == (64, 64):
        return Program("Tree-LSTM 64", None, path, reference.make_weights(), runs, "node", nodes, rank=2)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    shapes = {"words": (100, inputs), "w_iou": (3 * units, inputs), "u_iou": (3 * units, units), "b_iou": (3 * units,),
              "w_f": (units, inputs), "u_f": (units, units), "b_f": (units,)}
    weights = Weights()
    declared = "".join(weights.declare(name, *shape) for name, shape in shapes.items())
    text = re.sub(r"(?m)^free_var .*\n", "", text).replace("1, 64", f"1, {units}").replace("type List", declared + "type List", 1)
    return Program(f"Tree-LSTM {inputs}->{units}", text, None, weights.arrays, runs, "node", nodes, rank=2)


def resnet18(folder, size):
    import onnx  # pylint: disable=import-outside-toplevel
    from vision import networks  # pylint: disable=import-outside-toplevel

    model = networks.make("resnet18", size)
    for weight in model.graph.initializer:
        values = compressible(onnx.numpy_helper.to_array(weight))
        values = np.resize(values.ravel()[:RepeatedWeights.PERIOD], values.shape)  # the pack is small
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, f"{folder}/resnet18.onnx")
    return Program("ResNet-18", None, f"{folder}/resnet18.onnx", {}, [(f"{size}x{size}", [networks.image("resnet18", size)])], "image", 1, rank=4)


def large_tensors(rows, columns):
    return [large_tensor("softmax", "nn.softmax(%x)", rows, columns, True), large_tensor("layer norm", "nn.layer_norm(%x, %one, %one)", rows, columns, True),
            large_tensor("gelu", "nn.gelu(%x)", rows, columns, True), large_tensor("transpose", "transpose(%x)", rows, columns, True),
            large_tensor("sum of all", "sum(%x)", rows, columns, tolerance=1e-3), large_tensor("sum over rows", "sum(%x, axis=[0])", rows, columns, tolerance=1e-3)]


def all_programs(folder, is_small):
    if is_small:
        return [launches(5), copies(1024), product(24), recurrent("LSTM", 6, 8, 3), recurrent("GRU", 6, 8, 3), recurrent("LSTM", 6, 8, 5, [3, 4, 5]), *feed_forward(is_small), tree_lstm(3, 8, 5), bert(1, 16, 2, (3,)),
                *bert_base(1, 16, 2, 5), *large_tensors(8, 40)]
    return [recurrent("LSTM", 300, 512, 28), launches(1000), *bert_base(), recurrent("LSTM", 300, 512, 28, list(range(8, 24))), recurrent("GRU", 300, 512, 28), *feed_forward(is_small), tree_lstm(50), tree_lstm(50, 300, 150),
            product(1024), product(4096), product(1024, "bfloat16"), product(4096, "bfloat16"), *large_tensors(16384, 1024),
            bert(4, 256, 4, (16, 128, 384), weights=RepeatedWeights()), copies(4 << 20), resnet18(folder, 224)]
