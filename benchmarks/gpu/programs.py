"""The programs that `./run bench gpu` times, at full size and small, for the interpreter of the tests."""

import collections
import os
import sys

import numpy as np

import examples_test
import relayvm

sys.path.insert(0, os.path.join(relayvm.ROOT, "benchmarks"))

# `sources`: what the compiler reads: a text of Relay and weights, or a file. `runs`: [(label, arguments)], each argument
# an array or a text. `steps`: how many of `unit` a run makes.
Program = collections.namedtuple("Program", "name text path weights runs unit steps")


def compressible(array):
    """The numbers with three bits of mantissa: a packed folder is small, and the kernels take the same time."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFF00000)).view(np.float32)


class Weights:
    """Random weights, declared as free variables of a program."""

    def __init__(self):
        self.random, self.arrays = np.random.default_rng(0), {}

    def declare(self, name, *shape):
        self.arrays[name] = compressible(self.random.normal(size=shape) / np.sqrt(shape[-1]))
        return f"free_var %{name}: Tensor[({', '.join(map(str, shape))},), float32];\n"

    def tensor(self, *shape):
        return compressible(self.random.normal(size=shape))


HEAD = '#[version = "0.0.5"]\n'


def launches(count):
    """`count` kernels of one element each, one after the other: what a launch costs."""
    body = "".join(f"  let %x{i + 1} = annotation.stop_fusion(%x{i} + 1f);\n" for i in range(count))
    text = f"{HEAD}def @main(%x0: Tensor[(1,), float32]) {{\n{body}  %x{count}\n}}\n"
    return Program("launches", text, None, {}, [("one after the other", [np.zeros(1, np.float32)])], "launch", count)


def copies(elements):
    """To the device, one addition, and back."""
    text = f"{HEAD}def @main(%x: Tensor[({elements},), float32]) {{ %x + 1f }}\n"
    return Program("copies", text, None, {}, [(f"{elements * 4 / 2**20:g} MiB there and back", [np.zeros(elements, np.float32)])], "MiB", elements * 8 / 2**20)


def product(size):
    """A product of two matrices, which the device makes of vectors first; of the result one row is copied back."""
    random = np.random.default_rng(0)
    text = f"""{HEAD}def @main(%u: Tensor[({size}, 1), float32], %v: Tensor[(1, {size}), float32]) {{
  let %a = annotation.stop_fusion(sin(%u + %v));
  let %b = annotation.stop_fusion(cos(%u - %v));
  take(nn.matmul(%a, %b), 0, axis=0)
}}
"""
    vectors = [random.normal(size=shape).astype(np.float32) for shape in ((size, 1), (1, size))]
    return Program(f"matmul {size}", text, None, {}, [("float32", vectors)], "GFLOP", 2 * size**3 / 1e9)


def recurrent(kind, inputs, units, tokens):
    """An LSTM or a GRU over a sequence of any length, the product with the inputs taken once."""
    weights, gates = Weights(), {"LSTM": 4, "GRU": 3}[kind]
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
    return Program(f"{kind} {inputs}->{units}", text, None, weights.arrays, [(f"{tokens} tokens", [weights.tensor(tokens, inputs), str(tokens)])], "token", tokens)


def bert(layers, hidden, heads, lengths):
    """The encoder of Devlin et al. 2018 over embedded tokens, at any length."""
    weights, size = Weights(), hidden // heads
    text, body = HEAD, ""
    for n in range(layers):
        for name, shape in (("q", (hidden, hidden)), ("k", (hidden, hidden)), ("v", (hidden, hidden)), ("o", (hidden, hidden)),
                            ("up", (4 * hidden, hidden)), ("down", (hidden, 4 * hidden))):
            text += weights.declare(f"{name}{n}", *shape) + weights.declare(f"{name}{n}_b", shape[0])
        for name in ("norm1", "norm2"):
            text += weights.declare(f"{name}_{n}_g", hidden) + weights.declare(f"{name}_{n}_b", hidden)
        body += "".join(f"  let %{p}h{n} = transpose(reshape(nn.dense(%x{n}, %{p}{n}) + %{p}{n}_b, newshape=[0, {heads}, -1]), axes=[1, 0, 2]);\n" for p in "qkv")
        body += f"""  let %s{n} = nn.softmax(nn.batch_matmul(%qh{n}, %kh{n}, transpose_b=True) * {size ** -0.5!r}f, axis=-1);
  let %m{n} = reshape(transpose(nn.batch_matmul(%s{n}, %vh{n}, transpose_b=False), axes=[1, 0, 2]), newshape=[0, -1]);
  let %y{n} = nn.layer_norm(%x{n} + nn.dense(%m{n}, %o{n}) + %o{n}_b, %norm1_{n}_g, %norm1_{n}_b, axis=-1);
  let %f{n} = nn.dense(nn.gelu(nn.dense(%y{n}, %up{n}) + %up{n}_b), %down{n}) + %down{n}_b;
  let %x{n + 1} = nn.layer_norm(%y{n} + %f{n}, %norm2_{n}_g, %norm2_{n}_b, axis=-1);
"""
    text += f"def @main[n: ShapeVar](%x0: Tensor[(n, {hidden}), float32]) {{\n{body}  %x{layers}\n}}\n"
    return Program(f"BERT, {layers} layers of {hidden}", text, None, weights.arrays,
                   [(f"length {n}", [weights.tensor(n, hidden)]) for n in lengths], "run", 1)


def tree_lstm(nodes):
    folder, reference = os.path.join(relayvm.ROOT, "examples/tree_lstm"), examples_test.load_reference("tree_lstm")
    tree = reference.tree_text(reference.make_tree(nodes, np.random.default_rng(1)))
    return Program("Tree-LSTM 64", None, f"{folder}/tree_lstm.relay", reference.make_weights(), [(f"{nodes} nodes", [tree])], "node", nodes)


def resnet18(folder, size):
    import onnx  # pylint: disable=import-outside-toplevel
    from vision import networks  # pylint: disable=import-outside-toplevel

    model = networks.make("resnet18", size)
    for weight in model.graph.initializer:
        weight.CopyFrom(onnx.numpy_helper.from_array(compressible(onnx.numpy_helper.to_array(weight)), weight.name))
    onnx.save(model, f"{folder}/resnet18.onnx")
    return Program("ResNet-18", None, f"{folder}/resnet18.onnx", {}, [(f"{size}x{size}", [networks.image("resnet18", size)])], "image", 1)


def all_programs(folder, is_small):
    if is_small:
        return [launches(5), copies(1024), product(24), recurrent("LSTM", 6, 8, 3), recurrent("GRU", 6, 8, 3), bert(1, 16, 2, (3, 5))]
    return [launches(1000), copies(4 << 20), product(1024), product(4096), recurrent("LSTM", 300, 512, 28),
            recurrent("GRU", 300, 512, 28), tree_lstm(50), bert(4, 256, 4, (8, 16, 32, 64, 128, 256, 384)), resnet18(folder, 224)]
