"""The ten networks of make.py with all their channels, live beside MXNet: `python tests/mxnet/live.py [NAME_PART...]`.

Needs Python 3.11 or older with `pip install mxnet==1.9.1 numpy==1.23.5`, and built libraries. Weights are those that MXNet
initialises; files are those that `HybridBlock.export` writes. Prints the distance of each network, and a count.
"""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("RELAYVM_LIBRARY", os.path.join(ROOT, "bazel-bin/capi/librelayvm.so.1"))
os.environ.setdefault("RELAYVM_COMPILER_LIBRARY", os.path.join(ROOT, "bazel-bin/capi/compiler/librelayvm_compiler.so.1"))
sys.path[:0] = [HERE, *(os.path.join(ROOT, "python", part) for part in ("runtime", "compiler"))]

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
import relayvm  # noqa: E402
import weights  # noqa: E402
from mxnet.gluon.model_zoo import vision  # noqa: E402

NETWORKS = {"resnet18_v1": 224, "resnet18_v2": 224, "resnet50_v1": 224, "mobilenet1.0": 224, "mobilenetv2_1.0": 224, "vgg11_bn": 224,
            "densenet121": 224, "squeezenet1.0": 224, "alexnet": 224, "inceptionv3": 299}


def distance(name, extent, folder):
    """The largest relative distance between the scores of the exported network here and those of MXNet."""
    network = vision.get_model(name, pretrained=False)
    network.initialize(mx.init.MSRAPrelu())
    network.hybridize()
    image = weights.image(extent)
    expected = network(mx.nd.array(image)).asnumpy()
    network.export(os.path.join(folder, "net"))
    got = np.asarray(relayvm.compile(relayvm.import_mxnet(os.path.join(folder, "net-symbol.json"), inputs={"data": image.shape}))(image))
    assert got.shape == expected.shape, f"shape {got.shape}; expected {expected.shape}"
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def main(parts):
    right = count = 0
    for name, extent in NETWORKS.items():
        if parts and not any(part in name for part in parts):
            continue
        with tempfile.TemporaryDirectory() as folder:
            far = distance(name, extent, folder)
        print(f"{name}: {far:.2g}", flush=True)
        right, count = right + (far <= 1e-4), count + 1
    print(f"{right} of {count} are equal")
    return 0 if right == count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
