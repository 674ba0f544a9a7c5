"""TensorFlow Lite models of a few nodes, written here: equal to numpy at each level, and errors that say what is wrong."""

import importlib.util
import io
import lzma
import os
import re
import tempfile
import unittest

import numpy as np

import in_process
import relayvm

LEVELS = (["-O0"], ["-O2"], ["--target", "portable"])
TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "int16": 7, "int8": 9}
# Numbers of the tables of options in the schema's union, by operator.
OPTIONS = {"ADD": 11, "ARG_MAX": 40, "AVERAGE_POOL_2D": 5, "BATCH_MATMUL": 101, "CAST": 37, "CONCATENATION": 10, "CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "DIV": 29, "FULLY_CONNECTED": 8,
           "GATHER": 23, "LEAKY_RELU": 75, "MAX_POOL_2D": 5, "MEAN": 27, "MUL": 21, "PACK": 59, "REDUCE_MAX": 27, "RESHAPE": 17, "RESIZE_BILINEAR": 15, "RESIZE_NEAREST_NEIGHBOR": 74,
           "SHAPE": 55, "SOFTMAX": 9, "SPLIT": 35, "SPLIT_V": 79, "STRIDED_SLICE": 32, "SUB": 28, "SUM": 27, "UNPACK": 64}


def operator_numbers():
    with open(os.path.join(relayvm.ROOT, "compiler/import/tflite/operators.def"), encoding="utf-8") as file:
        return {name: number for number, name in enumerate(re.findall(r"^RVM_TFLITE_OPERATOR\((\w+)\)", file.read(), re.MULTILINE))}


class Writer:
    """Bytes of a model with one graph. Tensors are numbers; options are by field (kind, value)."""

    def __init__(self):
        self.tensors, self.buffers, self.nodes = [], [b""], []

    def tensor(self, name, shape, dtype="float32", data=None, scales=(), axis=0, signature=None, sparsity=None):
        self.tensors.append((name, shape, dtype, 0 if data is None else len(self.buffers), scales, axis, signature, sparsity))
        if data is not None:
            self.buffers.append(np.ascontiguousarray(data).tobytes())
        return len(self.tensors) - 1

    def constant(self, array, **given):
        array = np.asarray(array)
        return self.tensor(f"c{len(self.tensors)}", list(array.shape), str(array.dtype), array, **given)

    def sparse(self, stored, shape, order, levels, block_map=()):
        """`levels`: the extent of a dense one; (segments, indices, type of the union's vectors) of a sparse one."""
        return self.tensor(f"c{len(self.tensors)}", list(shape), str(stored.dtype), stored, sparsity=(order, block_map, levels))

    def node(self, op, inputs, outputs, **options):
        """`options`: f3=("int8", 1) is field 3."""
        self.nodes.append((op, inputs, outputs, options))

    def custom(self, op, inputs, outputs, data):
        """A node of a custom operator, whose options are bytes."""
        self.nodes.append((f"CUSTOM.{op}", inputs, outputs, data))

    def build(self, inputs, outputs):
        import flatbuffers  # pylint: disable=import-outside-toplevel
        b = flatbuffers.Builder(1024)
        kinds = {"int8": (b.PrependInt8Slot, 0), "int32": (b.PrependInt32Slot, 0), "bool": (b.PrependBoolSlot, False), "float32": (b.PrependFloat32Slot, 0.0)}

        def vector(values, size, prepend):
            b.StartVector(size, len(values), size)
            for value in reversed(values):
                prepend(value)
            return b.EndVector()

        ints = lambda values: vector(values, 4, b.PrependInt32)
        offsets = lambda values: vector(values, 4, b.PrependUOffsetTRelative)

        def table(fields):
            """`fields`: (slot, how, value)."""
            b.StartObject(max((slot for slot, _, _ in fields), default=0) + 1)
            for slot, how, value in fields:
                if how == "offset":
                    b.PrependUOffsetTRelativeSlot(slot, value, 0)
                elif how == "uint32":
                    b.PrependUint32Slot(slot, value, 0)
                else:
                    kinds[how][0](slot, value, kinds[how][1])
            return b.EndObject()

        buffers = []
        for data in self.buffers:
            place = b.CreateByteVector(data) if data else 0
            buffers.append(table([(0, "offset", place)] if data else []))
        tensors = []
        def indices(values, kind):
            size, prepend = {1: (4, b.PrependInt32), 2: (2, b.PrependUint16), 3: (1, b.PrependUint8)}[kind]
            return table([(0, "offset", vector(values, size, prepend))])

        def level(described):
            if isinstance(described, int):
                return table([(1, "int32", described)])
            segments, positions, kind = described
            places = indices(segments, kind), indices(positions, kind)
            return table([(0, "int8", 1), (2, "int8", kind), (3, "offset", places[0]), (4, "int8", kind), (5, "offset", places[1])])

        for name, shape, dtype, buffer, scales, axis, signature, sparsity in self.tensors:
            fields = [(0, "offset", ints([max(extent, 1) for extent in shape] if buffer == 0 else shape)), (1, "int8", TYPES[dtype]), (2, "uint32", buffer), (3, "offset", b.CreateString(name))]
            if len(scales):
                places = (vector(list(map(float, scales)), 4, b.PrependFloat32), vector([0] * len(scales), 8, b.PrependInt64))
                fields.append((4, "offset", table([(2, "offset", places[0]), (3, "offset", places[1]), (6, "int32", axis)])))
            if any(extent < 0 for extent in shape):
                fields.append((7, "offset", ints(signature or shape)))
            if sparsity:
                order, block_map, levels = sparsity
                places = ints(order), ints(block_map), offsets([level(described) for described in levels])
                fields.append((6, "offset", table([(slot, "offset", place) for slot, place in enumerate(places)])))
            tensors.append(table(fields))
        names = sorted({op for op, _, _, _ in self.nodes})
        numbers = operator_numbers()
        codes = []
        for name in names:
            number, custom = numbers[name.split(".")[0]], name.partition(".")[2]
            fields = [(1, "offset", b.CreateString(custom))] if custom else []
            codes.append(table([(0, "int8", min(number, 127)), *fields, (3, "int32", number)]))
        nodes = []
        for op, node_inputs, node_outputs, options in self.nodes:
            if isinstance(options, bytes):
                places = ints(node_inputs), ints(node_outputs), b.CreateByteVector(options)
                nodes.append(table([(0, "uint32", names.index(op)), (1, "offset", places[0]), (2, "offset", places[1]), (5, "offset", places[2])]))
                continue
            fields = []
            for field, (how, value) in options.items():
                fields.append((int(field[1:]), "offset" if how == "ints" else how, ints(value) if how == "ints" else value))
            places = ints(node_inputs), ints(node_outputs), table(fields)
            nodes.append(table([(0, "uint32", names.index(op)), (1, "offset", places[0]), (2, "offset", places[1]), *([(3, "int8", OPTIONS[op]), (4, "offset", places[2])] if op in OPTIONS else [])]))
        places = offsets(tensors), ints(inputs), ints(outputs), offsets(nodes)
        graph = table([(slot, "offset", place) for slot, place in enumerate(places)])
        places = offsets(codes), offsets([graph]), offsets(buffers)
        b.Finish(table([(0, "uint32", 3), (1, "offset", places[0]), (2, "offset", places[1]), (4, "offset", places[2])]), b"TFL3")
        return bytes(b.Output())


class Models(relayvm.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(5)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def floats(self, *shape):
        return self.random.standard_normal(shape).astype("float32")

    def save(self, data):
        path = os.path.join(self.place, "model.tflite")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def check(self, path, feeds, expected, *options, near=1e-5):
        executable = os.path.join(self.place, "model.rvm")
        for level in LEVELS:
            relayvm.must(relayvm.COMPILER, "compile", path, "-o", executable, *level, *options)
            got = in_process.load(executable)["main"](*feeds)
            got = list(got) if isinstance(got, tuple) else [got]
            self.assertEqual(len(got), len(expected))
            for i, (a, b) in enumerate(zip(got, expected)):
                with self.subTest(level=level, output=i):
                    a = np.asarray(a)
                    self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                    np.testing.assert_allclose(a, b, rtol=near, atol=near)

    def fails(self, path, message, *options):
        done = relayvm.run(relayvm.COMPILER, "check", path, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(message, done.stderr)


@unittest.skipUnless(importlib.util.find_spec("flatbuffers"), "the Python package flatbuffers is not installed")
class Nodes(Models):
    def one(self, cases, feed, shape=(-1, 6)):
        """A model with a node for each of (operator, constants, options, expected), which reads x before its constants."""
        writer = Writer()
        x = writer.tensor("x", list(shape))
        outputs = []
        for op, constants, options, expected in cases:
            outputs.append(writer.tensor(f"y{len(outputs)}", [-1] * expected.ndim, str(expected.dtype)))
            writer.node(op, [x, *(writer.constant(constant) for constant in constants)], [outputs[-1]], **options)
        self.check(self.save(writer.build([x], outputs)), [feed], [case[3] for case in cases])

    def sparse_product(self, stored, order, levels, block_map=(), shape=(4, 6)):
        """y = x @ w.T with a sparse w, and by way of DENSIFY."""
        writer = Writer()
        x, weights = writer.tensor("x", [-1, 6]), writer.sparse(np.float32(stored), shape, order, levels, block_map)
        dense, outputs = writer.tensor("dense", list(shape)), [writer.tensor(name, [-1, 4]) for name in ("y", "z")]
        writer.node("DENSIFY", [weights], [dense])
        for factor, output in zip((weights, dense), outputs):
            writer.node("FULLY_CONNECTED", [x, factor, -1], [output])
        return self.save(writer.build([x], outputs))

    def test_sparse_weights(self):
        x, w = self.floats(3, 6), np.zeros((4, 6), np.float32)
        w[0, [1, 4]], w[2, 5], w[3, [0, 3]] = [1, 2], 3, [4, 5]
        for kind in (1, 2, 3):
            path = self.sparse_product([1, 2, 3, 4, 5], [0, 1], [4, ([0, 2, 2, 3, 5], [1, 4, 5, 0, 3], kind)])
            self.check(path, [x], [x @ w.T] * 2)
        # By columns.
        path = self.sparse_product([4, 1, 5, 2, 3], [1, 0], [6, ([0, 1, 2, 2, 3, 4, 5], [3, 0, 3, 0, 2], 1)])
        self.check(path, [x], [x @ w.T] * 2)
        # Blocks of 2x3, of which rows 0 and 1 have the first and rows 2 and 3 the second.
        w = np.zeros((4, 6), np.float32)
        w[:2, :3], w[2:, 3:] = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
        path = self.sparse_product(np.arange(12), [0, 1, 2, 3], [2, ([0, 1, 2], [0, 1], 3), 2, 3], [0, 1])
        self.check(path, [x], [x @ w.T] * 2)

    def test_sparse_weights_that_are_wrong(self):
        for stored, levels, message in (
                ([1], [4, ([0, 1, 1, 1, 1], [6], 1)], "an index lies outside"), ([1], [4, ([0, 2, 2, 2, 2], [0, 1], 1)], "fewer elements than indices"),
                ([1, 2], [4, ([0, 1, 1, 1, 1], [0], 1)], "more elements than indices"), ([1], [3, ([0, 1, 1, 1], [0], 1)], "do not fit its shape"),
                ([1], [4, ([0, 1, 0, 1, 1], [0], 1)], "do not fit its shape"), ([1], [4], "do not fit its shape")):
            self.fails(self.sparse_product(stored, [0, 1][:len(levels)], levels), message)
        self.fails(self.sparse_product([1], [0, 0], [4, ([0, 1, 1, 1, 1], [0], 1)]), "do not fit its shape")

    def test_transposed_convolution_of_mediapipe(self):
        x, filters, bias = self.floats(1, 3, 4, 2), self.floats(5, 3, 2, 2), self.floats(5)
        for padding in (1, 2):
            whole = np.zeros((1, 3 - 1 + 3, (4 - 1) * 2 + 2, 5), np.float32)
            for i in range(3):
                for j in range(4):
                    whole[0, i:i + 3, 2 * j:2 * j + 2] += np.einsum("c,ohwc->hwo", x[0, i, j], filters)
            rows = whole.shape[1] - (2 if padding == 1 else 0)
            first = 1 if padding == 1 else 0
            writer = Writer()
            image, result = writer.tensor("x", list(x.shape)), writer.tensor("y", [1, rows, 8, 5])
            writer.custom("Convolution2DTransposeBias", [image, writer.constant(filters), writer.constant(bias)], [result], np.int32([padding, 2, 1]).tobytes())
            self.check(self.save(writer.build([image], [result])), [x], [whole[:, first:first + rows] + bias])

    def test_elementwise(self):
        x, other = self.floats(3, 6), self.floats(6)
        positive = np.abs(x) + np.float32(0.1)
        sigmoid = lambda v: (1 / (1 + np.exp(-v))).astype("float32")
        relu = lambda v: np.maximum(v, np.float32(0))
        self.one([("ADD", [other], {}, x + other), ("ADD", [other], {"f0": ("int8", 1)}, relu(x + other)), ("SUB", [other], {"f0": ("int8", 3)}, np.clip(x - other, 0, 6)),
                  ("MUL", [other], {"f0": ("int8", 2)}, np.clip(x * other, -1, 1)), ("MAXIMUM", [other], {}, np.maximum(x, other)), ("LESS", [other], {}, x < other),
                  ("LOGISTIC", [], {}, sigmoid(x)), ("TANH", [], {}, np.tanh(x)), ("RELU", [], {}, relu(x)), ("RELU6", [], {}, np.clip(x, 0, 6)), ("RELU_N1_TO_1", [], {}, np.clip(x, -1, 1)),
                  ("ABS", [], {}, np.abs(x)), ("NEG", [], {}, -x), ("SQUARE", [], {}, x * x), ("SQUARED_DIFFERENCE", [other], {}, (x - other) ** 2), ("ELU", [], {}, np.where(x > 0, x, np.expm1(x))),
                  ("LEAKY_RELU", [], {"f0": ("float32", 0.25)}, np.where(x > 0, x, x * np.float32(0.25))), ("PRELU", [other], {}, np.where(x < 0, x * other, x)),
                  ("HARD_SWISH", [], {}, (x * np.clip(x + 3, 0, 6) / 6).astype("float32")), ("EXP", [], {}, np.exp(x)), ("ROUND", [], {}, np.round(x)),
                  ("SOFTMAX", [], {"f0": ("float32", 0.5)}, (np.exp(x / 2) / np.exp(x / 2).sum(1, keepdims=True)).astype("float32")),
                  ("SUM", [np.int32([1])], {}, x.sum(1)), ("MEAN", [np.int32([0, 1])], {"f0": ("bool", True)}, x.mean(keepdims=True)), ("REDUCE_MAX", [np.int32([-1])], {"f0": ("bool", True)}, x.max(1, keepdims=True)),
                  ("ARG_MAX", [np.int32(1)], {"f0": ("int8", 4)}, x.argmax(1).astype("int64")), ("CAST", [], {"f1": ("int8", 2)}, x.astype("int32"))], x)
        self.one([("LOG", [], {}, np.log(positive)), ("SQRT", [], {}, np.sqrt(positive)), ("RSQRT", [], {}, 1 / np.sqrt(positive)), ("POW", [np.float32(1.5)], {}, positive ** np.float32(1.5)),
                  ("DIV", [np.abs(other) + 1], {"f0": ("int8", 1)}, positive / (np.abs(other) + 1))], positive)

    def test_shapes(self):
        x = self.floats(3, 6)
        self.one([("RESHAPE", [np.int32([-1, 2, 3])], {}, x.reshape(-1, 2, 3)), ("RESHAPE", [], {"f0": ("ints", [-1])}, x.ravel()), ("EXPAND_DIMS", [np.int32(-1)], {}, x[..., None]),
                  ("TRANSPOSE", [np.int32([1, 0])], {}, x.T), ("PAD", [np.int32([[0, 1], [2, 0]])], {}, np.pad(x, [(0, 1), (2, 0)])), ("PADV2", [np.int32([[1, 0], [0, 0]]), np.float32(7)], {}, np.pad(x, [(1, 0), (0, 0)], constant_values=7)),
                  ("SLICE", [np.int32([0, 1]), np.int32([-1, 3])], {}, x[:, 1:4]), ("STRIDED_SLICE", [np.int32([0, 5]), np.int32([0, 0]), np.int32([1, -2])], {"f0": ("int32", 1), "f1": ("int32", 1)}, x[:, 5:0:-2]),
                  ("STRIDED_SLICE", [np.int32([0, -1]), np.int32([2, 0]), np.int32([1, 1])], {"f4": ("int32", 2)}, x[0:2, -1]), ("GATHER", [np.int32([5, 0, 0])], {"f0": ("int32", 1)}, x[:, [5, 0, 0]]),
                  ("CONCATENATION", [self.twin(x)], {"f0": ("int32", 0)}, np.concatenate([x, self.twin(x)])), ("PACK", [], {"f0": ("int32", 1), "f1": ("int32", 1)}, x[:, None]), ("TILE", [np.int32([2, 1])], {}, np.tile(x, (2, 1))),
                  ("REVERSE_V2", [np.int32([1])], {}, x[:, ::-1]), ("SHAPE", [], {"f0": ("int8", 2)}, np.int32([3, 6]))], x)

    def twin(self, x):
        return x[:2] * 2

    def test_parts(self):
        writer = Writer()
        x = writer.tensor("x", [-1, 6])
        halves = [writer.tensor(f"h{i}", [-1, 3]) for i in range(2)]
        parts = [writer.tensor(f"p{i}", [-1, size]) for i, size in enumerate((1, 3, 2))]
        columns = [writer.tensor(f"u{i}", [-1]) for i in range(6)]
        writer.node("SPLIT", [writer.constant(np.int32(1)), x], halves, f0=("int32", 2))
        writer.node("SPLIT_V", [x, writer.constant(np.int32([1, -1, 2])), writer.constant(np.int32(-1))], parts, f0=("int32", 3))
        writer.node("UNPACK", [x], columns, f0=("int32", 6), f1=("int32", 1))
        feed = self.floats(4, 6)
        self.check(self.save(writer.build([x], halves + parts + columns)), [feed], [*np.split(feed, 2, 1), *np.split(feed, [1, 4], 1), *feed.T])

    def windows(self, x, height, width, stride, dilation, same, value=0.0):
        """(batch, rows, columns, height, width, channels) of windows as TensorFlow places them."""
        pads, counts = [], []
        for extent, size in zip(x.shape[1:3], (height, width)):
            reach = (size - 1) * dilation + 1
            count = -(-extent // stride) if same else (extent - reach) // stride + 1
            total = max(0, (count - 1) * stride + reach - extent) if same else 0
            pads.append((total // 2, total - total // 2))
            counts.append(count)
        padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)
        at = lambda i, j: padded[:, i * stride:i * stride + (height - 1) * dilation + 1:dilation, j * stride:j * stride + (width - 1) * dilation + 1:dilation]
        return np.stack([np.stack([at(i, j) for j in range(counts[1])], 1) for i in range(counts[0])], 1)

    def test_images(self):
        """Convolutions with strides, dilations and borders, of all channels and of each; pooling; a fused activation."""
        x = self.floats(2, 7, 8, 4)
        writer = Writer()
        image = writer.tensor("x", [-1, 7, 8, 4])
        outputs, expected = [], []

        def add(op, inputs, value, **options):
            outputs.append(writer.tensor(f"y{len(outputs)}", [-1, *value.shape[1:]]))
            writer.node(op, [image, *inputs], [outputs[-1]], **options)
            expected.append(value.astype("float32"))

        for stride, dilation, same in ((1, 1, True), (2, 1, True), (2, 1, False), (1, 2, True), (3, 1, True)):
            shared = {"f0": ("int8", int(not same)), "f1": ("int32", stride), "f2": ("int32", stride)}
            filters, bias, each = self.floats(5, 3, 2, 4), self.floats(5), self.floats(1, 3, 2, 8)
            windows = self.windows(x, 3, 2, stride, dilation, same)
            value = np.einsum("nrckjh,okjh->nrco", windows, filters) + bias
            add("CONV_2D", [writer.constant(filters), writer.constant(bias)], np.maximum(value, 0), f3=("int8", 1), f4=("int32", dilation), f5=("int32", dilation), **shared)
            value = np.einsum("nrckjh,kjhm->nrchm", windows, each[0].reshape(3, 2, 4, 2)).reshape(*windows.shape[:3], 8)
            add("DEPTHWISE_CONV_2D", [writer.constant(each)], value, f3=("int32", 2), f5=("int32", dilation), f6=("int32", dilation), **shared)
            if dilation == 1:
                pool = {**shared, "f3": ("int32", 2), "f4": ("int32", 3)}
                add("MAX_POOL_2D", [], self.windows(x, 3, 2, stride, 1, same, -np.inf).max((3, 4)), **pool)
                inside = self.windows(np.ones_like(x), 3, 2, stride, 1, same).sum((3, 4))
                add("AVERAGE_POOL_2D", [], windows.sum((3, 4)) / inside, **pool)
        self.check(self.save(writer.build([image], outputs)), [x], expected, near=1e-4)

    def test_products(self):
        """Dense layers with and without all their axes, weights of 8 bits and float16, and products of batches."""
        x, weights, bias = self.floats(2, 3, 6), self.floats(4, 6), self.floats(4)
        codes, scales = self.random.integers(-127, 128, (4, 6)).astype("int8"), np.float32([0.5, 0.25, 1, 2]) / 100
        writer = Writer()
        given = writer.tensor("x", [-1, 3, 6])
        half = writer.tensor("half", [4, 6])
        outputs = [writer.tensor(f"y{i}", shape) for i, shape in enumerate(([-1, 3, 4], [-1, 4], [-1, 3, 4], [-1, 3, 4], [-1, 3, 3]))]
        bound = writer.constant(bias)
        writer.node("DEQUANTIZE", [writer.constant(weights.astype("float16"))], [half])
        writer.node("FULLY_CONNECTED", [given, writer.constant(weights), bound], outputs[:1], f2=("bool", True))
        writer.node("FULLY_CONNECTED", [given, writer.constant(weights), -1], outputs[1:2], f0=("int8", 1))
        writer.node("FULLY_CONNECTED", [given, writer.constant(codes, scales=scales), bound], outputs[2:3], f2=("bool", True))
        writer.node("FULLY_CONNECTED", [given, half, bound], outputs[3:4], f2=("bool", True))
        writer.node("BATCH_MATMUL", [given, given], outputs[4:], f1=("bool", True))
        wide = codes.astype("float32") * scales[:, None]
        narrow = weights.astype("float16").astype("float32")
        self.check(self.save(writer.build([given], outputs)), [x], [x @ weights.T + bias, np.maximum(x.reshape(-1, 6) @ weights.T, 0), x @ wide.T + bias, x @ narrow.T + bias, x @ x.transpose(0, 2, 1)])

    def test_options(self):
        """Names of extents, frozen inputs, coverage, and where steps come from."""
        writer = Writer()
        x, y, z = writer.tensor("x", [-1, 2]), writer.tensor("y", [-1, 2]), writer.tensor("sum", [-1, 2])
        writer.node("ADD", [x, y], [z])
        path = self.save(writer.build([x, y], [z]))
        self.assertIn("Tensor[(n, 2), float32]", relayvm.must(relayvm.COMPILER, "check", path, "--types", "--shape", "x=n,2", "--shape", "y=n,2"))
        np.save(os.path.join(self.place, "y.npy"), np.float32([[1.5, 2]]))
        self.check(path, [np.float32([[1, 2]])], [np.float32([[2.5, 4]])], "--freeze", f"y=@{self.place}/y.npy")
        types = relayvm.must(relayvm.COMPILER, "check", path, "--types", "--shape", "x=n,2", "--shape", "y=n + 1 - 1,2")
        self.assertIn("(Tensor[(n, 2), float32], Tensor[((n + 1) - 1, 2), float32])", types)
        self.fails(path, "the model has no input `q` to give a shape", "--shape", "q=1,2")
        self.fails(path, "input `x` has rank 2; the shape given to it has rank 1", "--shape", "x=1")
        done = relayvm.run(relayvm.COMPILER, "run", path, "[[1, 2], [1, 2], [1, 2]]", "[[1, 2], [3, 4]]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ADD node of `sum`", done.stderr)

    def test_refusals(self):
        """All that is not supported at once, with the nodes."""
        writer = Writer()
        x, outputs = writer.tensor("x", [-1, 2]), [writer.tensor(name, [-1, 2]) for name in ("rows", "hashed")]
        writer.node("LSH_PROJECTION", [x], outputs[:1])
        writer.node("HASHTABLE_LOOKUP", [x], outputs[1:])
        path = self.save(writer.build([x], outputs))
        self.fails(path, "LSH_PROJECTION: this operator is not supported (`rows`)")
        self.fails(path, "HASHTABLE_LOOKUP: this operator is not supported (`hashed`)")

    def test_unknown_extents(self):
        """SAME borders of strides, for images of any size."""
        x, filters = self.floats(2, 7, 8, 3), self.floats(4, 3, 2, 3)
        writer = Writer()
        image, y = writer.tensor("x", [-1, -1, -1, 3]), writer.tensor("y", [-1, -1, -1, 4])
        writer.node("CONV_2D", [image, writer.constant(filters), writer.constant(np.zeros(4, "float32"))], [y], f1=("int32", 2), f2=("int32", 3))
        value = np.einsum("nrckjh,okjh->nrco", self.rows_of(x, 3, 2, 3, 2), filters)
        self.check(self.save(writer.build([image], [y])), [x], [value.astype("float32")], near=1e-4)

    def rows_of(self, x, height, width, down, right):
        """Windows of SAME borders with other strides along both axes."""
        pads = []
        for extent, size, stride in zip(x.shape[1:3], (height, width), (down, right)):
            total = max(0, (-(-extent // stride) - 1) * stride + size - extent)
            pads.append((total // 2, total - total // 2))
        padded = np.pad(x, [(0, 0), *pads, (0, 0)])
        rows, columns = -(-x.shape[1] // down), -(-x.shape[2] // right)
        return np.stack([np.stack([padded[:, i * down:i * down + height, j * right:j * right + width] for j in range(columns)], 1) for i in range(rows)], 1)

    def test_malformed_files(self):
        """Each prefix, and each byte changed, gives a program or an error."""
        writer = Writer()
        x, y = writer.tensor("x", [-1, 2]), writer.tensor("y", [-1, 2])
        writer.node("ADD", [x, writer.constant(np.float32([1, 2]))], [y])
        data = writer.build([x], [y])
        self.fails(self.save(b"nothing of a model"), "no TensorFlow Lite model: bytes 4 to 7 are not `TFL3`")
        self.fails(self.save(data[:60]), "an offset of the file leads outside of it")
        for at in self.random.choice(len(data), 40, replace=False):
            changed = bytearray(data)
            changed[at] ^= 0x95
            done = relayvm.run(relayvm.COMPILER, "check", self.save(bytes(changed)))
            self.assertIn(done.returncode, (0, 1), (at, done.stderr))


class Runs(Models):
    """Runs of models that a fixture has, equal to what it says."""

    # Functions that are computed in floats here: how far results may be apart.
    STEPS = {"log_softmax": 1, "l2_normalization": 1, "softmax_int16": 128, "logistic_int16": 1, "tanh_int16": 1}

    def compare(self, model, got, wanted):
        self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype))
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
            return
        most = max((steps for known, steps in self.STEPS.items() if model.startswith(known)), default=0)
        self.assertLessEqual(np.abs(got.astype("int64") - wanted.astype("int64")).max(initial=0), most)

    def run_all(self, model, content, runs, *options):
        """State goes from one run to the next."""
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", self.save(content), "-o", executable, *options)
        loaded = in_process.load(executable)
        state = []
        if "initial_state" in loaded.entries:
            state = loaded["initial_state"]()
            state = list(state) if isinstance(state, tuple) else [state]
        for inputs, outputs in runs:
            got = loaded["main"](*inputs, *state)
            got = list(got) if isinstance(got, tuple) else [got]
            self.assertEqual(len(got), len(outputs) + len(state))
            state = got[len(outputs):]
            for a, b in zip(got, outputs):
                self.compare(model, np.asarray(a), b)


class Fixtures(Runs):
    """Models that tests/tflite/make.py wrote, equal to LiteRT's reference kernels: integers in all bits."""

    def models(self, name):
        """(the name of a model, its bytes, its runs: lists of inputs and of outputs)"""
        with lzma.open(os.path.join(relayvm.ROOT, "tests/tflite", name)) as file:
            arrays = np.load(io.BytesIO(file.read()))
        for key in arrays.files:
            if not key.endswith(".model"):
                continue
            model = key.removesuffix(".model")

            def all_of(run, kind, model=model):
                count = sum(other.startswith(f"{model}.{run}.{kind}.") for other in arrays.files)
                return [arrays[f"{model}.{run}.{kind}.{i}"] for i in range(count)]

            runs = len({other.split(".")[1] for other in arrays.files if other.startswith(f"{model}.") and other != key})
            yield model, arrays[key].tobytes(), [(all_of(run, "in"), all_of(run, "out")) for run in range(runs)]

    def test_operators(self):
        """Each operator in each dtype."""
        count = 0
        for model, content, runs in self.models("operators.npz.xz"):
            count += 1
            with self.subTest(model):
                self.run_all(model, content, runs, "--target", "portable" if count % 4 == 0 else "host")
        self.assertGreater(count, 400)

    def test_programs(self):
        """Control flow, variables, recurrent layers, networks."""
        for model, content, runs in self.models("programs.npz.xz"):
            for options in LEVELS:
                with self.subTest(model, options=options):
                    self.run_all(model, content, runs, *options)

    def test_names_of_signatures(self):
        content = next(content for model, content, _ in self.models("programs.npz.xz") if model == "signature")
        program = os.path.join(self.place, "model.relay")
        relayvm.must(relayvm.COMPILER, "import", self.save(content), "-o", program)
        with open(program, encoding="utf-8") as file:
            self.assertIn("%x:", file.read())


class Flex(Runs):
    """Models that TensorFlow converted (tests/tflite/flex.py), with its own operators, and with several signatures."""

    @classmethod
    def setUpClass(cls):
        with lzma.open(os.path.join(relayvm.ROOT, "tests/tflite/flex.npz.xz")) as file:
            arrays = np.load(io.BytesIO(file.read()))
        cls.calls, cls.contents = {}, {}
        for key in arrays.files:
            model, *rest = key.split(".")
            if rest == ["model"]:
                cls.contents[model] = arrays[key].tobytes()
            else:
                cls.calls.setdefault(model, {}).setdefault(rest[0], {}).setdefault(rest[1], []).append(arrays[key])

    def test_operators_of_tensorflow(self):
        for number, (model, content) in enumerate(self.contents.items()):
            if model in ("coder", "tied"):
                continue
            runs = [(call["in"], call["out"]) for call in self.calls[model].values()]
            for options in [["--target", "portable"], LEVELS[number % 2]]:
                with self.subTest(model, options=options):
                    self.run_all(model, content, runs, *options)
        self.assertGreater(number, 15)

    def test_refused_operators_of_tensorflow(self):
        """Those that are not known, and those that refer to a graph around them."""
        texts = lambda name, node: flexbuffer_texts(name.encode(), node)
        node = lambda op: b"\x0a\x01n\x12" + bytes([len(op)]) + op.encode()
        for op, message in (("Bessel", "TensorFlow's Bessel, which is not supported (`y`)"), ("VarHandleOp", "TensorFlow's VarHandleOp, which refers to the rest of a graph of TensorFlow (`y`)")):
            writer = Writer()
            x, y = writer.tensor("x", [2]), writer.tensor("y", [2])
            writer.custom(f"Flex{op}", [x], [y], texts(op, node(op)))
            self.fails(self.save(writer.build([x], [y])), f"CUSTOM.Flex{op}: {message}")
        for options in (b"", texts("Erf", b"\x0a\xff"), b"\x00" * 9, texts("Erf", node("Erf"))[:-4]):
            writer = Writer()
            x, y = writer.tensor("x", [2]), writer.tensor("y", [2])
            writer.custom("FlexErf", [x], [y], options)
            done = relayvm.run(relayvm.COMPILER, "check", self.save(writer.build([x], [y])))
            self.assertRegex(done.stderr, "CUSTOM.FlexErf: (its options are no node of TensorFlow|the definition of its node of TensorFlow is malformed)")

    # ---- signatures

    def test_signatures_share_weights_and_state(self):
        path, executable = self.save(self.contents["coder"]), os.path.join(self.place, "coder.rvm")
        relayvm.must(relayvm.COMPILER, "compile", path, "--signature", "encode", "--signature", "decode", "-o", executable)
        loaded = in_process.load(executable)
        self.assertEqual(sorted(loaded.entries), ["decode", "initial_state", "main"])
        state = loaded["initial_state"]()
        for call, given in self.calls["coder"].items():
            entry = "decode" if call.endswith("decode") else "main"
            names = [output.name for output in loaded[entry].signature.outputs]
            *got, state = loaded[entry](*given["in"], state)
            for name, b in zip(sorted(names[:-1]), given["out"], strict=True):
                self.compare("coder", np.asarray(got[names.index(name)]), b)

    def test_signatures_store_shared_weights_once(self):
        program, params = (os.path.join(self.place, f"tied.{ending}") for ending in ("relay", "safetensors"))
        relayvm.must(relayvm.COMPILER, "import", self.save(self.contents["tied"]), "--signature", "encode", "--signature", "decode", "-o", program, "--params", params)
        self.assertLess(os.path.getsize(params), 1.5 * 64 * 48 * 4)
        with open(program, encoding="utf-8") as file:
            self.assertEqual(file.read().count("free_var"), 1)

    def test_which_signature(self):
        path = self.save(self.contents["coder"])
        self.fails(path, "the model has the signatures `decode`, `encode`, and none is `serving_default`; choose by --signature NAME")
        self.fails(path, "the model has no signature `q`; it has the signatures `decode`, `encode`", "--signature", "q")
        self.fails(path, "signature `encode` is chosen twice", "--signature", "encode", "--signature", "encode")
        types = relayvm.must(relayvm.COMPILER, "check", path, "--types", "--signature", "decode", "--shape", "x=n,8")
        self.assertIn("Tensor[(n, 8), float32]", types)
        writer = Writer()
        x = writer.tensor("x", [2])
        self.fails(self.save(writer.build([x], [x])), "signature `a`: the model has no signatures to choose from", "--signature", "a")


def flexbuffer_texts(*texts):
    """A FlexBuffers vector of texts of less than 256 bytes in sum."""
    content, places = b"", []
    for text in texts:
        content += bytes([len(text)])
        places.append(len(content))
        content += text + b"\x00"
    content += bytes([len(texts)])
    values = len(content)
    content += bytes(values + i - place for i, place in enumerate(places))
    content += bytes([5 << 2]) * len(texts)
    return content + bytes([len(content) - values, 10 << 2, 1])


class Coverage(relayvm.TestCase):
    def test_each_operator_is_named(self):
        """docs/tflite.md has the state of each operator, which is that of the tables."""
        folder = os.path.join(relayvm.ROOT, "compiler/import/tflite")
        imported = set()
        for file in os.listdir(folder):
            if file.endswith(".cc"):
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    imported |= set(re.findall(r'^    (?:Moves\(|OfComplex\()?\{?"([A-Z][A-Z0-9_]+)", ', text.read(), re.MULTILINE))
        with open(os.path.join(relayvm.ROOT, "docs/tflite.md"), encoding="utf-8") as text:
            rows = re.findall(r"^\|.*", text.read().split("## What is refused")[1].split("\n## ")[0], re.MULTILINE)
        refused = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", "\n".join(rows)))
        named = set(operator_numbers())
        self.assertEqual(sorted(refused & imported), [])
        self.assertEqual(sorted(named - imported - refused - {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}), [])


if __name__ == "__main__":
    unittest.main()
