"""Writes the fixtures of tensorflow_test.py: SavedModels and graphs, and what TensorFlow computes for them.

    python tests/tensorflow/make.py

Needs tensorflow-cpu (2.21.0 with Keras 3.15.1 made those that are committed), which no test needs. models.npz.xz has for each model
`NAME|file|PATH`, the bytes of its files, `NAME|in|N` and `NAME|out|N`, its inputs and outputs. states.npz.xz has those that change their
variables: input N is that of run N, `NAME|out|N.K` output K of it. signatures.npz.xz has one of several signatures: input `N.SIGNATURE` is
that of call N, which calls this signature, and `NAME|out|N.OUTPUT` an output. captured.npz.xz, spectra.npz.xz and matrices.npz.xz are as
models.npz.xz.
"""

import io
import lzma
import os
import tempfile

import live  # sets what TensorFlow prints

import matrices
import networks
import numpy as np
import spectra
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from captured import GIVEN, Wrapped
from signatures import CALLS, Coder
from states import STATES
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def store(arrays, name, folder, inputs, outputs):
    for place, _, files in os.walk(folder):
        for file in sorted(files):
            path = os.path.join(place, file)
            if file == "fingerprint.pb":
                continue
            with open(path, "rb") as content:
                arrays[f"{name}|file|{os.path.relpath(path, folder)}"] = np.frombuffer(content.read(), np.uint8)
    for kind, values in (("in", inputs), ("out", outputs)):
        for number, value in enumerate(values):
            arrays[f"{name}|{kind}|{number}"] = np.asarray(value)


def states():
    arrays = {}
    for name, (model, inputs) in STATES.items():
        with tempfile.TemporaryDirectory() as folder:
            module = model()
            tf.saved_model.save(module, folder, signatures=module.run)
            store(arrays, name, folder, inputs, [])
            for run, given in enumerate(inputs):
                for key, value in module.run(tf.constant(given)).items():
                    arrays[f"{name}|out|{run}.{key.removeprefix('y')}"] = value.numpy()
    return arrays


def signatures():
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        module = Coder()
        tf.saved_model.save(module, folder, signatures=module.signatures())
        store(arrays, "coder", folder, [], [])
        for call, (signature, given) in enumerate(CALLS):
            arrays[f"coder|in|{call}.{signature}"] = given
            for key, value in getattr(module, signature)(tf.constant(given)).items():
                arrays[f"coder|out|{call}.{key}"] = value.numpy()
    return arrays


def captured():
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        module = Wrapped()
        tf.saved_model.save(module, folder, signatures=module.run)
        store(arrays, "captured", folder, [GIVEN], [module.run(tf.constant(GIVEN))])
    return arrays


def of_function(name, function, arguments):
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        outputs = live.save("functions", function, arguments, folder)
        outputs = [outputs[k] for k in sorted(range(len(outputs)), key=str)]  # the names of results sort as texts
        store(arrays, name, folder, arguments, spectra.pairs(outputs))
    return arrays


def write(name, arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    with lzma.open(os.path.join(HERE, f"{name}.npz.xz"), "wb", preset=9) as file:
        file.write(content.getvalue())


def main():
    arrays = {}
    for name, (function, arguments) in live.PROGRAMS.items():
        for generation in live.GENERATIONS:
            with tempfile.TemporaryDirectory() as folder:
                outputs = live.save(generation, function, arguments, folder)
                store(arrays, f"{name}.{generation}", folder, arguments, outputs)
    for name in networks.NETWORKS:
        model, given = networks.make(name)
        outputs = [model(given, training=False)]
        with tempfile.TemporaryDirectory() as folder:
            model.export(folder, verbose=False)
            store(arrays, f"{name}.saved", folder, [given], outputs)
        with tempfile.TemporaryDirectory() as folder:
            function = tf.function(lambda x, model=model: model(x, training=False)).get_concrete_function(tf.TensorSpec([None, *model.inputs[0].shape[1:]], given.dtype))
            graph = convert_variables_to_constants_v2(function, lower_control_flow=False).graph.as_graph_def()
            with open(os.path.join(folder, "graph.pb"), "wb") as file:
                file.write(graph.SerializeToString())
            store(arrays, f"{name}.frozen", folder, [given], outputs)
    write("models", arrays)
    write("states", states())
    write("signatures", signatures())
    write("captured", captured())
    write("spectra", of_function("spectra", spectra.spectra, spectra.GIVEN))
    write("matrices", of_function("matrices", matrices.matrices, matrices.GIVEN))


if __name__ == "__main__":
    main()
