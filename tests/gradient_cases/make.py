"""Writes pytorch.npz: what PyTorch gives for the cases of this folder, in float64.

    PYTHONPATH=tests python tests/gradient_cases/make.py

Needs PyTorch (2.15 wrote the one that is committed), which no test needs. `CASE.first.N` is the gradient of the weighted sum of
the result by input N; `CASE.second.N` that of the sum of the products of these gradients and the inputs.
"""

import os

import gradient_cases
import numpy
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    arrays = {}
    for case in gradient_cases.CASES:
        inputs = [torch.tensor(array, requires_grad=True) for array in gradient_cases.inputs(case)]
        result = case.torch(torch, torch.nn.functional, *inputs)
        weights = torch.tensor(gradient_cases.weights(case, tuple(result.shape)))
        arrays[f"{case.name}.weights"] = weights.numpy()
        first = torch.autograd.grad((result * weights).sum(), inputs, create_graph=case.is_smooth)
        for number, gradient in enumerate(first):
            arrays[f"{case.name}.first.{number}"] = gradient.detach().numpy()
        if case.is_smooth:
            along = sum((gradient * x.detach()).sum() for gradient, x in zip(first, inputs))
            second = torch.autograd.grad(along, inputs, allow_unused=True)
            for number, (gradient, x) in enumerate(zip(second, inputs)):
                arrays[f"{case.name}.second.{number}"] = numpy.zeros(tuple(x.shape)) if gradient is None else gradient.numpy()
    numpy.savez_compressed(os.path.join(HERE, "pytorch.npz"), **arrays)
    print(f"{len(gradient_cases.CASES)} cases")


if __name__ == "__main__":
    main()
