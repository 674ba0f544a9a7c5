"""Times single operators beside ONNX Runtime: outputs are compared first, then runs of both alternate, one thread.

    python benchmarks/kernels/compare_onnxruntime.py --relayvm BINARY [--before BINARY] [--only WORD] [--seconds S]

Prints a Markdown table: microseconds of the fastest run of each, and the peer's time divided by ours.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

RANDOM = numpy.random.default_rng(5)


def values(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def tensor(shape):
    return f"Tensor[({', '.join(str(d) for d in shape)}{',' if len(shape) == 1 else ''}), float32]"


class Case:
    """An operator in both languages: `relay` is an expression over %x0, %x1, ... and the weights %w0, ..."""

    def __init__(self, name, relay, op, inputs, weights=(), **attributes):
        self.name, self.relay, self.op, self.attributes = name, relay, op, attributes
        self.inputs, self.weights = inputs, list(weights)

    def write_relay(self, folder):
        program = "".join(f"free_var %w{i}: {tensor(w.shape)};\n" for i, w in enumerate(self.weights))
        params = ", ".join(f"%x{i}: {tensor(x.shape)}" for i, x in enumerate(self.inputs))
        with open(os.path.join(folder, "case.relay"), "w", encoding="utf-8") as file:
            file.write(f'#[version = "0.0.5"]\n{program}def @main({params}) {{ {self.relay} }}\n')
        numpy.savez(os.path.join(folder, "weights.npz"), **{f"w{i}": w for i, w in enumerate(self.weights)})
        for i, x in enumerate(self.inputs):
            numpy.save(os.path.join(folder, f"x{i}.npy"), x)

    def session(self):
        names = [f"x{i}" for i in range(len(self.inputs))]
        node = helper.make_node(self.op, names + [f"w{i}" for i in range(len(self.weights))], ["y"], **self.attributes)
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in zip(names, self.inputs)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(self.weights)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def convolution(name, channels, filters, size, window, stride=1, pad=0, dilation=1, groups=1):
    return Case(f"convolution {name}",
                f"nn.conv2d(%x0, %w0, strides=[{stride}, {stride}], padding=[{pad}, {pad}], "
                f"dilation=[{dilation}, {dilation}], groups={groups})",
                "Conv", [values(1, channels, size, size)], [values(filters, channels // groups, window, window)],
                strides=[stride, stride], pads=[pad] * 4, dilations=[dilation, dilation], group=groups)


def product(m, n, k, batch=None):
    if batch is None:
        # nn.matmul of two computed matrices.
        return Case(f"product {m}x{k} {k}x{n}", "nn.matmul(%x0, %x1)", "MatMul", [values(m, k), values(k, n)])
    return Case(f"product {batch} x {m}x{k} {k}x{n}", "nn.batch_matmul(%x0, %x1, transpose_b=False)", "MatMul",
                [values(batch, m, k), values(batch, k, n)])


def cases():
    yield convolution("3x3 64-64 56", 64, 64, 56, 3, pad=1)
    yield convolution("3x3 128-128 28", 128, 128, 28, 3, pad=1)
    yield convolution("1x1 256-64 56", 256, 64, 56, 1)
    yield convolution("1x1 stride 2 512-128 28", 512, 128, 28, 1, stride=2)
    yield convolution("7x7 stride 2 3-64 224", 3, 64, 224, 7, stride=2, pad=3)
    yield convolution("3x3 stride 2 3-24 225", 3, 24, 225, 3, stride=2, pad=1)
    yield convolution("3x3 dilation 2 64-64 28", 64, 64, 28, 3, pad=2, dilation=2)
    yield convolution("3x3 groups 4 64-64 56", 64, 64, 56, 3, pad=1, groups=4)
    yield convolution("3x3 50-70 31", 50, 70, 31, 3, pad=1)
    yield convolution("depthwise 3x3 128 56", 128, 128, 56, 3, pad=1, groups=128)
    yield convolution("depthwise 5x5 stride 2 96 27", 96, 96, 27, 5, stride=2, pad=2, groups=96)
    yield product(64, 64, 64)
    yield product(128, 128, 128)
    yield product(512, 512, 512)
    yield product(197, 131, 77)
    yield product(1, 1024, 1024)
    yield product(197, 197, 64, batch=12)
    yield product(197, 64, 197, batch=12)
    yield Case("softmax 2048x2048", "nn.softmax(%x0)", "Softmax", [values(2048, 2048)], axis=-1)
    yield Case("softmax 2364x197", "nn.softmax(%x0)", "Softmax", [values(2364, 197)], axis=-1)
    yield Case("transpose 2048x2048", "transpose(%x0, axes=[1, 0])", "Transpose", [values(2048, 2048)], perm=[1, 0])
    yield Case("transpose 197x12x64", "transpose(%x0, axes=[1, 0, 2])", "Transpose", [values(197, 12, 64)],
               perm=[1, 0, 2])
    yield Case("max pool 3x3 stride 2 64 112",
               "nn.max_pool2d(%x0, pool_size=[3, 3], strides=[2, 2], padding=[1, 1])", "MaxPool",
               [values(1, 64, 112, 112)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield Case("sum over the first axis 2048x2048", "sum(%x0, axis=[0])", "ReduceSum", [values(2048, 2048)])


class Ours:
    def __init__(self, binary, folder, case, tag):
        self.binary, self.folder, self.case = binary, folder, case
        self.file = os.path.join(folder, f"{tag}.rvm")
        self.inputs = [f"@{folder}/x{i}.npy" for i in range(len(case.inputs))]
        command = [binary, "compile", f"{folder}/case.relay", "-o", self.file]
        if case.weights:
            command += ["--params", f"{folder}/weights.npz"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def result(self):
        out = os.path.join(self.folder, "y.npy")
        subprocess.run([self.binary, "run", self.file, "--out", out] + self.inputs, check=True)
        return numpy.load(out)

    def time(self, seconds):
        report = os.path.join(self.folder, "bench.json")
        subprocess.run([self.binary, "bench", self.file, "--seconds", str(max(1, round(seconds))), "--json", report] + self.inputs,
                       check=True, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["latency"]["least_ns"] / 1e3


def time_session(session, feed, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--relayvm", required=True)
    parser.add_argument("--before", help="another binary, to compare versions")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    print("| Operator | before, us | now, us | ONNX Runtime, us | ratio before | ratio now |\n|---|---|---|---|---|---|")
    for case in cases():
        if options.only not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            case.write_relay(folder)
            ours = Ours(options.relayvm, folder, case, "now")
            before = Ours(options.before, folder, case, "before") if options.before else None
            session = case.session()
            feed = {f"x{i}": x for i, x in enumerate(case.inputs)}
            expected, got = session.run(None, feed)[0], ours.result()
            numpy.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-3, atol=1e-3)
            times = {"before": float("inf"), "now": float("inf"), "peer": float("inf")}
            for _ in range(3):
                times["now"] = min(times["now"], ours.time(options.seconds))
                times["peer"] = min(times["peer"], time_session(session, feed, options.seconds))
                if before is not None:
                    times["before"] = min(times["before"], before.time(options.seconds))
            peer, now, then = times["peer"], times["now"], times["before"]
            old = f"{then:.1f}" if before is not None else ""
            old_ratio = f"{peer / then:.2f}" if before is not None else ""
            print(f"| {case.name} | {old} | {now:.1f} | {peer:.1f} | {old_ratio} | {peer / now:.2f} |", flush=True)


if __name__ == "__main__":
    main()
