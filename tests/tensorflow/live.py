"""Compares RelayVM with TensorFlow: `python tests/tensorflow/live.py [NAME ...]` on programs, with `--layers [PART ...]` on SavedModels of
one layer of Keras each (tests/keras/layers.py), with a batch of 2 and an unknown one.

Needs tensorflow-cpu, which no other test needs, beside this repository's build.
"""

import argparse
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import in_process  # noqa: E402
import relayvm  # noqa: E402
from programs import PROGRAMS  # noqa: E402

RELAYVM = os.environ.get("RELAYVM", relayvm.COMPILER)


GENERATIONS = ("functions", "frames")


def save(generation, function, arguments, folder):
    """Writes a model into a folder, and returns what TensorFlow computes."""
    if generation == "functions":
        return save_functions(function, arguments, folder)
    return save_frames(function, arguments, os.path.join(folder, "graph.pb"))


def save_functions(function, arguments, folder):
    """Writes a SavedModel whose control flow is functions, and returns what TensorFlow computes."""
    module = tf.Module()
    module.f = tf.function(lambda *inputs: {f"y{k}": value for k, value in enumerate(tf.nest.flatten(function(*inputs)))},
                           input_signature=[tf.TensorSpec(a.shape, a.dtype, f"x{k}") for k, a in enumerate(arguments)])
    tf.saved_model.save(module, folder, signatures=module.f)
    result = module.f(*[tf.constant(a) for a in arguments])
    return [result[f"y{k}"].numpy() for k in range(len(result))]


def save_frames(function, arguments, path):
    """Writes a GraphDef whose control flow is frames, and returns what TensorFlow computes."""
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            inputs = [tf.compat.v1.placeholder(a.dtype, a.shape, f"x{k}") for k, a in enumerate(arguments)]
            for k, value in enumerate(tf.nest.flatten(function(*inputs))):
                tf.identity(value, f"y{k}")
            outputs = [graph.get_tensor_by_name(f"y{k}:0") for k in range(k + 1)]
            with tf.compat.v1.Session(graph=graph) as session:
                results = session.run(outputs, dict(zip(inputs, arguments)))
            definition = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [o.op.name for o in outputs])
    finally:
        tf.compat.v1.enable_control_flow_v2()
    with open(path, "wb") as file:
        file.write(definition.SerializeToString())
    return results


def model_in(folder):
    """The path of the model that `save` wrote."""
    graph = os.path.join(folder, "graph.pb")
    return graph if os.path.exists(graph) else folder


def run(path, arguments, options=()):
    """What RelayVM computes."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "model.rvm")
        relayvm.must(RELAYVM, "compile", path, "-o", program, *options)
        got = in_process.load(program)["main"](*arguments)
        return [np.asarray(x) for x in (got if isinstance(got, tuple) else (got,))]


def difference(got, wanted):
    """"" if the outputs are equal, else what differs."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs for {len(wanted)}"
    for a, b in zip(got, wanted):
        b = np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
        if not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"off by {np.nanmax(np.abs(a.astype(float) - b.astype(float)))}"
    return ""


def compare_layers(parts):
    """Prints what differs, and a count; returns the number of failures."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "keras"))
    import keras
    import layers
    wrong = count = 0
    for name, build in layers.LAYERS.items():
        if parts and not any(part in name for part in parts):
            continue
        for batch in (2, None):
            keras.backend.clear_session()
            model = build(batch)
            layers.random_weights(model)
            values = layers.random_inputs(model)
            # The inputs of a signature are in alphabetical order.
            order = sorted(range(len(values)), key=lambda k, model=model: model.inputs[k].name)
            count += 1
            with tempfile.TemporaryDirectory() as folder:
                try:
                    model.export(folder, verbose=False)
                    what = difference(run(folder, [values[k] for k in order]), layers.outputs_of(model, values))
                except Exception as failure:  # pylint: disable=broad-exception-caught
                    what = str(failure)
            if what:
                wrong += 1
                print(f"{name}, batch {batch}: {what}", flush=True)
    print(f"layers: {count - wrong} of {count} equal", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generation", choices=GENERATIONS)
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.layers:
        return compare_layers(given.names)
    failures = 0
    for generation in (given.generation,) if given.generation else GENERATIONS:
        wrong = []
        chosen = [name for name in PROGRAMS if not given.names or name in given.names]
        for name in chosen:
            function, arguments = PROGRAMS[name]
            with tempfile.TemporaryDirectory() as folder:
                wanted = save(generation, function, arguments, folder)
                try:
                    what = difference(run(model_in(folder), arguments), wanted)
                except Exception as failure:  # pylint: disable=broad-exception-caught
                    what = str(failure)
            if what:
                wrong.append(f"{name}: {what}")
        print("\n".join([*wrong, f"{generation}: {len(chosen) - len(wrong)} of {len(chosen)} equal"]), flush=True)
        failures += len(wrong)
    return failures


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
