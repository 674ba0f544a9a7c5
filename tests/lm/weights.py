"""The models of this folder as files: graphs are packed (.xz), and each weight is made of its name, so that no file has it.

`layouts.json` says which tensors a model has outside of its graph, in order: in a file beside an ONNX file (external data),
`<model>.bin`, or as entries of the archive of a .pt2 file.
"""

import io
import json
import lzma
import os
import zipfile
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ALIGNMENT = 64


def scale(family, name, shape):
    """Spread and shift of a tensor: what layers add outweighs embeddings, so that logits lie apart and texts vary."""
    if "relative_attention_bias" in name:
        return 2.0, 0.0
    if len(shape) == 1:
        return (0.25, 1.0) if ("norm" in name or "ln_" in name) and name.endswith("weight") else (0.25, 0.0)
    embeddings, matrices = {"marian": (0.5, 1.0), "moonshine": (0.125, 0.5), "whisper": (0.125, 0.5)}.get(family, (0.25, 0.5))
    return (embeddings if any(part in name for part in ("embed", "shared", "wte", "wpe")) else matrices), 0.0


def array(seed, name, shape):
    """Multiples of spread / 64, exact in float32 for a spread that is a power of two. Streams of RandomState never change."""
    spread, shift = scale(seed.split()[0], name, shape)
    dice = np.random.RandomState(zlib.crc32(f"{seed} {name}".encode()))
    return (dice.randint(-64, 65, shape) * (spread / 64) + shift).astype("float32")


def unpack(model, path):
    """Writes a model as a file, an ONNX file with its weights beside it, as `<model>.bin`."""
    with open(os.path.join(HERE, "layouts.json"), encoding="utf-8") as file:
        seed, tensors = json.load(file)[model]
    with lzma.open(os.path.join(HERE, f"{model}{os.path.splitext(path)[1]}.xz")) as file:
        graph = file.read()
    if path.endswith(".pt2"):
        archive = io.BytesIO(graph)
        with zipfile.ZipFile(archive, "a") as entries:
            for name, shape, entry in tensors:
                entries.writestr(entry, array(seed, name, shape).tobytes())
        graph = archive.getvalue()
    else:
        with open(os.path.join(os.path.dirname(path), f"{model}.bin"), "wb") as file:
            for name, shape, is_transposed in tensors:
                given = array(seed, name, shape)
                file.write(np.ascontiguousarray(given.T if is_transposed else given).tobytes())
                file.write(bytes(-file.tell() % ALIGNMENT))
    with open(path, "wb") as file:
        file.write(graph)
