"""Writes the fixture of formats_test.py: one network in all formats that its frameworks write, and what it computes.

    python tests/formats/make.py

Needs tensorflow-cpu, keras, jax, tf2onnx, onnx and torch (2.21, 3.15, 0.10, 1.17, 1.22 and 2.15 made the fixture that is committed), which
no test needs. network.npz.xz has `file|PATH`, the bytes of each file, `in`, images (n, h, w, c), and `out`, their classes. Files in
`planes/` take images (n, c, h, w).
"""

import io
import lzma
import os
import subprocess
import sys
import tempfile

import keras_files
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, CLASSES = 12, 5


def keras_network(keras):
    layers = keras.layers
    inputs = x = keras.Input((SIZE, SIZE, 3), name="image")
    x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(x)))
    x = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)))
    y = layers.Conv2D(16, 1, activation="tanh")(x)
    x = layers.Concatenate()([layers.Add()([x, y]), layers.MaxPooling2D(3, strides=1, padding="same")(x)])
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(32, 3, padding="same", activation="sigmoid")(x))
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x))


def tensorflow(folder):
    import keras

    random = np.random.default_rng(7)
    model = keras_network(keras)
    for variable in model.variables:
        low, high = (0.5, 1.5) if "variance" in variable.path or "gamma" in variable.path else (-0.5, 0.5)
        variable.assign(random.uniform(low, high, variable.shape))
    images = random.uniform(-1, 1, (2, SIZE, SIZE, 3)).astype(np.float32)
    keras_files.save(model, f"{folder}/network", f"{folder}/saved")
    model.save(f"{folder}/network.h5")
    np.savez(f"{folder}/values.npz", images=images, classes=model(images).numpy())


def stablehlo(folder):
    keras_files.save_stablehlo(f"{folder}/network")


def torch(folder):
    import keras
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.stem_norm = nn.Conv2d(3, 16, 3, 2, bias=False), nn.BatchNorm2d(16, 1e-3)
            self.wise, self.wise_norm = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16, 1e-3)
            self.mix, self.wide, self.head = nn.Conv2d(16, 16, 1), nn.Conv2d(32, 32, 3, padding=1), nn.Linear(32, CLASSES)

        def forward(self, image):
            x = nn.functional.relu6(self.stem_norm(self.stem(nn.functional.pad(image, (0, 1, 0, 1)))))
            x = torch.relu(self.wise_norm(self.wise(x)))
            x = torch.cat([x + torch.tanh(self.mix(x)), nn.functional.max_pool2d(x, 3, 1, 1)], 1)
            return torch.softmax(self.head(torch.sigmoid(self.wide(x)).mean((2, 3))), -1)

    network = Network().eval()
    order = [network.stem, network.stem_norm, network.wise, network.wise_norm, network.mix, network.wide, network.head]
    weighted = [layer for layer in keras.models.load_model(f"{folder}/network.keras").layers if layer.weights]
    for own, layer in zip(order, weighted, strict=True):
        values = [torch.from_numpy(np.array(value)) for value in layer.get_weights()]
        if isinstance(own, nn.BatchNorm2d):
            for target, value in zip((own.weight, own.bias, own.running_mean, own.running_var), values, strict=True):
                target.data.copy_(value)
            continue
        own.weight.data.copy_(values[0].permute((2, 3, 0, 1) if own is network.wise else (3, 2, 0, 1)) if values[0].ndim == 4 else values[0].T)
        if own.bias is not None:
            own.bias.data.copy_(values[1])
    values = np.load(f"{folder}/values.npz")
    images = torch.from_numpy(values["images"]).permute(0, 3, 1, 2).contiguous()
    np.testing.assert_allclose(network(images).detach().numpy(), values["classes"], rtol=1e-4, atol=1e-5)
    os.mkdir(f"{folder}/planes")
    exported = torch.export.export(network, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(exported, f"{folder}/planes/network.pt2")
    torch.jit.trace(network, images).save(f"{folder}/planes/network.pt")


def main():
    if len(sys.argv) > 1:
        return globals()[sys.argv[1]](sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for step, backend in (("tensorflow", "tensorflow"), ("stablehlo", "jax"), ("torch", "jax")):
            subprocess.run([sys.executable, __file__, step, folder], check=True, env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"})
        values = np.load(f"{folder}/values.npz")
        arrays = {"in": values["images"], "out": values["classes"]}
        for place, _, files in os.walk(folder):
            for name in sorted(files):
                if name in ("values.npz", "fingerprint.pb"):
                    continue
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    arrays[f"file|{os.path.relpath(path, folder)}"] = np.frombuffer(file.read(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **arrays)
    with lzma.open(os.path.join(HERE, "network.npz.xz"), "wb", preset=9) as file:
        file.write(content.getvalue())


if __name__ == "__main__":
    main()
