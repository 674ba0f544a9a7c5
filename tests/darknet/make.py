"""Writes opencv.npz: what OpenCV computes for the networks of networks.py. `pip install opencv-python-headless`."""

import os
import tempfile

import cv2
import numpy as np

import networks

HERE = os.path.dirname(os.path.abspath(__file__))


def run(text):
    """The results of OpenCV, which runs one image at a time, so that rows of boxes do not mix."""
    x = networks.feed(text)
    network = networks.Network(text, x)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"model.{ending}") for ending in ("cfg", "weights")]
        with open(paths[0], "w", encoding="utf-8") as file:
            file.write(networks.config(text))
        with open(paths[1], "wb") as file:
            file.write(network.weights)
        model = cv2.dnn.readNetFromDarknet(*paths)
    results = []
    for image in x:
        model.setInput(image[None])
        results.append(model.forward(model.getUnconnectedOutLayersNames()))
    return [np.stack(parts) for parts in zip(*results)]


if __name__ == "__main__":
    np.savez_compressed(os.path.join(HERE, "opencv.npz"),
                        **{f"{name}.{i}": result for name, text in networks.OPENCV.items() for i, result in enumerate(run(text))})
