"""Times convolutions and products beside ONNX Runtime: outputs are compared first, then runs of both alternate.

`./run bench kernels` makes the table of all, on one thread and on two; RELAYVM_KERNELS is a regular expression that
chooses operators. Times are microseconds of the fastest run of each side, a ratio is the peer's time divided by ours.
The share of the FMA peak is the time that the multiplications would take at the peak of this minute on one core, divided
by ours on one thread; above 100% where an algorithm does fewer multiplications.

Run as a program it compares two versions of RelayVM, on one thread:

    python benchmarks/kernels/compare_onnxruntime.py --relayvm BINARY --before BINARY [--only REGEX] [--seconds S]
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

RANDOM = numpy.random.default_rng(5)


def values(*shape, dtype=numpy.float32):
    if numpy.issubdtype(dtype, numpy.integer):
        return RANDOM.integers(numpy.iinfo(dtype).min, numpy.iinfo(dtype).max + 1, shape).astype(dtype)
    return RANDOM.standard_normal(shape).astype(dtype)


def tensor(array):
    shape = array.shape
    return f"Tensor[({', '.join(str(d) for d in shape)}{',' if len(shape) == 1 else ''}), {array.dtype}]"


class Case:
    """An operator in both languages: `relay` is an expression over %x0, %x1, ... and the weights %w0, ..."""

    def __init__(self, name, relay, op, inputs, weights=(), multiplications=0, **attributes):
        self.name, self.relay, self.op, self.attributes = name, relay, op, attributes
        self.multiplications = multiplications
        self.inputs, self.weights = inputs, list(weights)

    def write_relay(self, folder):
        program = "".join(f"free_var %w{i}: {tensor(w)};\n" for i, w in enumerate(self.weights))
        params = ", ".join(f"%x{i}: {tensor(x)}" for i, x in enumerate(self.inputs))
        with open(os.path.join(folder, "case.relay"), "w", encoding="utf-8") as file:
            file.write(f'#[version = "0.0.5"]\n{program}def @main({params}) {{ {self.relay} }}\n')
        numpy.savez(os.path.join(folder, "weights.npz"), **{f"w{i}": w for i, w in enumerate(self.weights)})
        for i, x in enumerate(self.inputs):
            numpy.save(os.path.join(folder, f"x{i}.npy"), x)

    def result_type(self):
        integers = self.op.endswith("Integer")
        return TensorProto.INT32 if integers else helper.np_dtype_to_tensor_dtype(self.inputs[0].dtype)

    def session(self, threads):
        names = [f"x{i}" for i in range(len(self.inputs))]
        node = helper.make_node(self.op, names + [f"w{i}" for i in range(len(self.weights))], ["y"], **self.attributes)
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, self.inputs)],
            [helper.make_tensor_value_info("y", self.result_type(), None)],
            [onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(self.weights)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def convolution(name, channels, filters, size, window, stride=1, pad=0, dilation=1, groups=1, dtype=numpy.float32,
                batch=1):
    """`size` and `window`: extents of the image and the filters, one number for two equal axes."""
    size, window = ((v, v) if isinstance(v, int) else v for v in (size, window))
    axes = len(size)
    out = [(s + 2 * pad - (w - 1) * dilation - 1) // stride + 1 for s, w in zip(size, window)]
    integers = numpy.issubdtype(dtype, numpy.integer)
    return Case(f"convolution {name}",
                f"nn.conv{axes}d(%x0, %w0, strides={[stride] * axes}, padding={[pad] * axes}, "
                f"dilation={[dilation] * axes}, groups={groups}" + (', out_dtype="int32")' if integers else ")"),
                "ConvInteger" if integers else "Conv", [values(batch, channels, *size, dtype=dtype)],
                [values(filters, channels // groups, *window, dtype=dtype)],
                batch * filters * math.prod(out) * channels // groups * math.prod(window),
                strides=[stride] * axes, pads=[pad] * 2 * axes, dilations=[dilation] * axes, group=groups)


def transposed(name, channels, filters, size, window, stride=1, pad=0, extra=0, dilation=1, groups=1):
    size, window = ((v, v) if isinstance(v, int) else v for v in (size, window))
    axes = len(size)
    return Case(f"transposed {name}",
                f"nn.conv{axes}d_transpose(%x0, %w0, strides={[stride] * axes}, padding={[pad] * axes}, "
                f"output_padding={[extra] * axes}, dilation={[dilation] * axes}, groups={groups})",
                "ConvTranspose", [values(1, channels, *size)], [values(channels, filters // groups, *window)],
                channels * math.prod(size) * filters // groups * math.prod(window),
                strides=[stride] * axes, pads=[pad] * 2 * axes, output_padding=[extra] * axes,
                dilations=[dilation] * axes, group=groups)


def product(m, n, k, batch=None, dtype=numpy.float32, constant=False, transpose_b=False):
    """Of two computed matrices, or of one and a constant."""
    integers = numpy.issubdtype(dtype, numpy.integer)
    kind = "" if dtype == numpy.float32 else f" {numpy.dtype(dtype)}"
    if batch is not None:
        a, b = values(batch, m, k, dtype=dtype), values(batch, k, n, dtype=dtype)
        return Case(f"product {batch} x {m}x{k} {k}x{n}{kind}", "nn.batch_matmul(%x0, %x1, transpose_b=False)",
                    "MatMul", [a, b], (), batch * m * n * k)
    a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
    if transpose_b:
        return Case(f"product {m}x{k} ({n}x{k})^T", "nn.matmul(%x0, %x1, transpose_b=True)", "Gemm",
                    [a, values(n, k)], (), m * n * k, transB=1)
    right = "%w0" if constant else "%x1"
    suffix = ', out_dtype="int32"' if integers else ""
    return Case(f"product {m}x{k} {k}x{n}{kind}{' constant' if constant else ''}",
                f"nn.matmul(%x0, {right}{suffix})", "MatMulInteger" if integers else "MatMul",
                [a] if constant else [a, b], [b] if constant else [], m * n * k)


def cases():
    yield convolution("1x1 16-96 112", 16, 96, 112, 1)
    yield convolution("1x1 96-576 14", 96, 576, 14, 1)
    yield convolution("1x1 576-96 14", 576, 96, 14, 1)
    yield convolution("1x1 320-1280 7", 320, 1280, 7, 1)
    yield convolution("1x1 32-64 112", 32, 64, 112, 1)
    yield convolution("1x1 128-128 56", 128, 128, 56, 1)
    yield convolution("1x1 512-512 14", 512, 512, 14, 1)
    yield convolution("depthwise 3x3 192 28", 192, 192, 28, 3, pad=1, groups=192)
    yield convolution("depthwise 3x3 stride 2 96 112", 96, 96, 112, 3, stride=2, pad=1, groups=96)
    yield convolution("3x3 64-64 56", 64, 64, 56, 3, pad=1)
    yield convolution("3x3 128-128 28", 128, 128, 28, 3, pad=1)
    yield convolution("3x3 512-512 7", 512, 512, 7, 3, pad=1)
    yield convolution("3x3 50-70 31", 50, 70, 31, 3, pad=1)
    yield convolution("3x3 64-64 29 batch 3", 64, 64, 29, 3, pad=1, batch=3)
    yield convolution("3x3 stride 2 64-128 56", 64, 128, 56, 3, stride=2, pad=1)
    yield convolution("1x1 256-64 56", 256, 64, 56, 1)
    yield convolution("1x1 24-144 57", 24, 144, 57, 1)
    yield convolution("1x1 stride 2 512-128 28", 512, 128, 28, 1, stride=2)
    yield convolution("7x7 stride 2 3-64 224", 3, 64, 224, 7, stride=2, pad=3)
    yield convolution("3x3 stride 2 3-24 225", 3, 24, 225, 3, stride=2, pad=1)
    yield convolution("5x5 stride 3 20-36 50", 20, 36, 50, 5, stride=3, pad=2)
    yield convolution("3x3 dilation 2 64-64 28", 64, 64, 28, 3, pad=2, dilation=2)
    yield convolution("3x3 groups 4 64-64 56", 64, 64, 56, 3, pad=1, groups=4)
    yield convolution("3x3 groups 32 128-128 28", 128, 128, 28, 3, pad=1, groups=32)
    yield convolution("depthwise 3x3 128 56", 128, 128, 56, 3, pad=1, groups=128)
    yield convolution("depthwise 3x3 512 14", 512, 512, 14, 3, pad=1, groups=512)
    yield convolution("depthwise 3x3 stride 2 64 112", 64, 64, 112, 3, stride=2, pad=1, groups=64)
    yield convolution("depthwise 5x5 stride 2 96 27", 96, 96, 27, 5, stride=2, pad=2, groups=96)
    yield convolution("depthwise 3x3 37 61", 37, 37, 61, 3, pad=1, groups=37)
    yield convolution("1-D 5 64-96 400", 64, 96, (400,), (5,), pad=2)
    yield convolution("1-D 3 stride 2 dilation 2 80-80 333", 80, 80, (333,), (3,), stride=2, pad=2, dilation=2)
    yield convolution("3-D 3x3x3 16-32 12x28x28", 16, 32, (12, 28, 28), (3, 3, 3), pad=1)
    yield transposed("4x4 stride 2 64-32 16", 64, 32, 16, 4, stride=2, pad=1)
    yield transposed("4x4 stride 2 512-256 8", 512, 256, 8, 4, stride=2, pad=1)
    yield transposed("4x4 100-512 1", 100, 512, 1, 4)
    yield transposed("3x3 stride 2 48-40 19", 48, 40, 19, 3, stride=2, pad=1, extra=1)
    yield transposed("2x2 stride 2 64-64 31", 64, 64, 31, 2, stride=2)
    yield transposed("5x5 stride 1 32-32 28", 32, 32, 28, 5, pad=2)
    yield transposed("1-D 16 stride 8 64-32 100", 64, 32, (100,), (16,), stride=8, pad=4)
    yield transposed("3-D 2x2x2 stride 2 32-16 12", 32, 16, (12, 12, 12), (2, 2, 2), stride=2)
    yield product(64, 64, 64)
    yield product(128, 128, 128)
    yield product(512, 512, 512)
    yield product(1024, 1024, 1024)
    yield product(197, 131, 77)
    yield product(16, 16, 1024)
    yield product(5, 7, 9)
    yield product(333, 10, 333)
    yield product(1, 1024, 1024)
    yield product(1024, 1, 1024)
    yield product(512, 512, 512, transpose_b=True)
    yield product(197, 131, 77, transpose_b=True)
    yield product(197, 197, 64, batch=12)
    yield product(197, 64, 197, batch=12)
    yield product(33, 33, 40, batch=50)
    yield product(64, 768, 768, constant=True)
    yield product(64, 1024, 1024, dtype=numpy.uint8, constant=True)
    yield product(100, 90, 75, dtype=numpy.int8, constant=True)
    yield product(128, 128, 128, dtype=numpy.uint8)
    yield product(256, 256, 256, dtype=numpy.float16)
    yield convolution("3x3 64-64 56 uint8", 64, 64, 56, 3, pad=1, dtype=numpy.uint8)
    yield convolution("1x1 256-64 56 uint8", 256, 64, 56, 1, dtype=numpy.uint8)
    yield convolution("7x7 stride 2 3-64 224 uint8", 3, 64, 224, 7, stride=2, pad=3, dtype=numpy.uint8)
    yield convolution("3x3 depthwise 144 56 uint8", 144, 144, 56, 3, pad=1, groups=144, dtype=numpy.uint8)


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

    def time(self, seconds, threads=1):
        """Microseconds of the fastest run."""
        report = os.path.join(self.folder, "bench.json")
        subprocess.run([self.binary, "bench", self.file, "--seconds", str(seconds), "--threads", str(threads),
                        "--json", report] + self.inputs, check=True, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["latency"]["least_ns"] / 1e3


def time_session(session, feed, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


class Peer:
    def __init__(self, case, threads=1):
        self.session = case.session(threads)
        self.feed = {f"x{i}": x for i, x in enumerate(case.inputs)}

    def result(self):
        return self.session.run(None, self.feed)[0]

    def time(self, seconds):
        return time_session(self.session, self.feed, seconds)


def check(case, side, other):
    """That both sides give the same result."""
    expected, got = side.result(), other.result()
    numpy.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-3, atol=1e-3, err_msg=case.name)


def alternate(*sides, rounds=3):
    """The least of what each side's function gives."""
    return [min(times) for times in zip(*([side() for side in sides] for _ in range(rounds)))]


def table(folder, binary, fma_peak, seconds=0.3):
    """Markdown, the slowest beside its peer first. `binary`: relayvm; `fma_peak`: what measures the peak."""
    rows = []
    for case in cases():
        if not re.search(os.environ.get("RELAYVM_KERNELS", ""), case.name):
            continue
        case.write_relay(folder)
        ours = Ours(binary, folder, case, "now")
        try:
            peers = {threads: Peer(case, threads) for threads in (1, 2)}
        except Exception as error:  # a dtype that the peer has no kernel for
            rows.append((float("inf"), f"| {case.name} | {ours.time(seconds):.1f} | none: {str(error).split(':')[2].strip()} | | | | | |"))
            continue
        check(case, peers[1], ours)
        (one, one_peer), (two, two_peer) = (
            alternate(lambda: ours.time(seconds, threads), lambda: peers[threads].time(seconds)) for threads in (1, 2))
        peak = float(subprocess.run([fma_peak], check=True, capture_output=True, text=True).stdout)
        share = f"{case.multiplications / peak * 1e6 / one:.0%}" if case.result_type() == TensorProto.FLOAT else ""
        rows.append((one_peer / one, f"| {case.name} | {one:.1f} | {one_peer:.1f} | {one_peer / one:.2f} | {share} | "
                                     f"{two:.1f} | {two_peer:.1f} | {two_peer / two:.2f} |"))
        print(rows[-1][1], file=sys.stderr, flush=True)
    ratios = [row[0] for row in rows if row[0] != float("inf")]
    text = (f"Convolutions and products beside ONNX Runtime {onnxruntime.__version__}, microseconds on one thread and on two; "
            "the share is of the FMA peak, on one thread.\n\n"
            "| Operator | RelayVM, 1 | peer, 1 | ratio | share | RelayVM, 2 | peer, 2 | ratio |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|\n")
    text += "".join(row[1] + "\n" for row in sorted(rows, key=lambda row: row[0]))
    if ratios:
        text += f"\n{len(ratios)} rows; median ratio on one thread {statistics.median(ratios):.2f}, least {min(ratios):.2f}.\n"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--relayvm", required=True)
    parser.add_argument("--before", required=True, help="another binary")
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    print("| Operator | before, us | now, us | before / now |\n|---|---:|---:|---:|")
    for case in cases():
        if not re.search(options.only, case.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            case.write_relay(folder)
            now, before = Ours(options.relayvm, folder, case, "now"), Ours(options.before, folder, case, "before")
            check(case, before, now)
            new, old = alternate(lambda: now.time(options.seconds), lambda: before.time(options.seconds))
            print(f"| {case.name} | {old:.1f} | {new:.1f} | {old / new:.2f} |", flush=True)


if __name__ == "__main__":
    main()
