"""How long models take to compile, and how much memory that needs beside their weights."""

import importlib.util
import os
import sys
import time

import numpy as np

import compile_time
import peak_memory
import relayvm
import vm_share
from bert import network as bert
from recurrent import networks as recurrent

ROUNDS = 3


def saved(folder, name, model):
    """The path of an ONNX model and the bytes of its weights."""
    import onnx  # pylint: disable=import-outside-toplevel

    onnx.save(model, f"{folder}/{name}.onnx")
    return f"{folder}/{name}.onnx", sum(onnx.numpy_helper.to_array(weight).nbytes for weight in model.graph.initializer)


def models(folder):
    """The name, the compiler's arguments and the bytes of the weights of each. The first has one kernel and no weights."""
    source = f"{folder}/double.relay"
    with open(source, "w", encoding="utf-8") as file:
        file.write("def @main(%x: Tensor[(n), float32]) -> Tensor[(n), float32] { %x * 2f }\n")
    yield "x * 2, Relay", [source], 0
    source, weights = vm_share.write_tree_lstm(folder)
    yield (f"Tree-LSTM {vm_share.INPUTS}->{vm_share.UNITS}, Relay", [source, "--params", weights],
           sum(array.nbytes for array in np.load(weights).values()))
    if importlib.util.find_spec("onnx") is None:
        print("onnx is not installed: compiling LSTM and BERT-base is not measured", file=sys.stderr)
        return
    path, size = saved(folder, "lstm", recurrent.make("LSTM", 1))
    yield f"LSTM {recurrent.INPUTS}->{recurrent.UNITS}, ONNX", [path], size
    path, size = saved(folder, "bert", bert.make())
    yield f"BERT-base, {bert.LAYERS} layers, ONNX", [path], size


def measure(arguments, output):
    """Seconds, seconds of the processor and bytes resident at most of one compilation."""
    began, used = time.perf_counter(), compile_time.processor_seconds()
    peak = peak_memory.peak_of([relayvm.COMPILER, "compile", *arguments, "-o", output]) << 10
    return time.perf_counter() - began, compile_time.processor_seconds() - used, peak


def table(folder):
    text = (f"Compiling at the default level: seconds and seconds of the processor, the least of {ROUNDS}; the peak memory of the "
            "compiler, MB and multiples of the weights, all of it and what is above the program without weights.\n\n"
            "| Model | seconds | of the processor | weights | peak memory | of the weights | above |\n|---|---:|---:|---:|---:|---:|---:|\n")
    output, empty = os.path.join(folder, "compiled.rvm"), 0
    for name, arguments, size in models(folder):
        seconds, processor, peak = map(min, zip(*(measure(arguments, output) for _ in range(ROUNDS))))
        empty = empty or peak
        shares = f"{peak / size:.1f} | {(peak - empty) / size:.1f}" if size else " | "
        text += f"| {name} | {seconds:.2f} | {processor:.2f} | {size / 1e6:.1f} | {peak / 1e6:.1f} | {shares} |\n"
        print(text.splitlines()[-1], file=sys.stderr, flush=True)
    return text
