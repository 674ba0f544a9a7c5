"""Times one network through the front of each format, beside the same network through ONNX and in ONNX Runtime.

RELAYVM_PEERS: a Python with tensorflow-cpu, keras, jax and tf2onnx, which saves the networks; this one unless given. RELAYVM_FORMATS: a
regular expression that chooses networks. Outputs are compared with those of Keras first; runs of all sides alternate.
"""

import os
import re
import subprocess
import sys
import time

import numpy as np
import onnx_models
import relayvm
from formats import save

FRONTS = ("onnx", "keras", "pb", "saved", "tflite", "mlirbc")
ROUNDS, RUNS = 5, 4
TOLERANCE = 1e-3  # of the largest element of the result


def table(folder):
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return "onnxruntime is not installed: networks in several formats are not measured\n"
    names = [name for name in save.SIZES if re.search(os.environ.get("RELAYVM_FORMATS", ""), name)]
    peers = os.environ.get("RELAYVM_PEERS", sys.executable)
    done = subprocess.run([peers, save.__file__, folder, *names], capture_output=True, text=True)
    if done.returncode != 0:
        return f"the networks could not be saved ({done.stderr.strip().splitlines()[-1]}): RELAYVM_PEERS names a Python that can\n"
    text = ("One network through each front, one image, one thread; milliseconds, and the time beside that through ONNX.\n\n"
            f"| Network | ONNX Runtime | {' | '.join(FRONTS)} | most beside ONNX | error |\n|---|{'---:|' * (len(FRONTS) + 3)}\n")
    most = 0
    for name in names:
        values = np.load(f"{folder}/{name}.npz")
        image, classes = values["image"], values["classes"]
        session = onnx_models.session_of(f"{folder}/{name}.onnx", 1)
        feed = {session.get_inputs()[0].name: image}
        executables = {front: f"{folder}/{name}.{front}.rvm" for front in FRONTS}
        error, times, theirs = 0, dict.fromkeys(FRONTS, float("inf")), float("inf")
        for front, executable in executables.items():
            relayvm.must(relayvm.COMPILER, "compile", f"{folder}/{name}.{front}", "-o", executable)
            error = max(error, np.abs(onnx_models.execute(executable, {"x": image})[0] - classes).max() / np.abs(classes).max())
        if not error <= TOLERANCE:
            raise AssertionError(f"{name}: the results differ by {error:.2g} of the largest; expected {TOLERANCE} or less")
        for _ in range(ROUNDS):
            theirs = min(theirs, onnx_models.least_of(lambda: session.run(None, feed), RUNS))
            time.sleep(onnx_models.SPINNING)
            for front, executable in executables.items():
                times[front] = min(times[front], onnx_models.execute(executable, {"x": image}, repeat=RUNS)[1])
        slowest = max(times.values()) / times["onnx"]
        most = max(most, slowest)
        text += (f"| {name} | {theirs * 1e3:.2f} | {' | '.join(f'{times[front] * 1e3:.2f}' for front in FRONTS)} | {slowest:.2f} | "
                 f"{error:.1g} |\n")
        print(text.splitlines()[-1], file=sys.stderr)
    return text + f"\nAt most {most:.2f} times the time through ONNX.\n"
