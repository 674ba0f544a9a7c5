"""Writes the fixtures of torchscript_test.py: models as torch.jit.save writes them, and what PyTorch computed. Needs
PyTorch. `python tests/torchscript/make.py` in the root of the tree."""

import os

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.layers = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Dropout())
        self.head = nn.Linear(4 * 16, 5)

    def forward(self, x):
        y = self.layers(self.norm(self.convolution(x)))
        return torch.log_softmax(self.head(y.view(x.size(0), -1)), 1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, tokens):
        return self.layer(self.embedding(tokens)).mean(1)


class Steps(nn.Module):
    """A loop over a known number of steps, a branch on elements, a list of tensors."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: torch.Tensor, limit: torch.Tensor):
        state = torch.zeros([x.size(1), 4], dtype=x.dtype)
        states = []
        for i in range(5):
            state = self.cell(x[i], state)
            if bool(state.sum() > limit):
                state = state * 0.5
            states.append(state)
        return torch.stack(states), state


class Until(nn.Module):
    """A loop that ends as the elements say."""

    def forward(self, x: torch.Tensor):
        count = 0
        while bool(x.sum() < 100.0):
            x = x * 2 + 1
            count += 1
        return x, count


def save(name, module, inputs):
    module.save(os.path.join(HERE, name + ".pt"))
    with torch.no_grad():
        outputs = module(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    np.savez(os.path.join(HERE, name + ".npz"),
             **{f"in{i}": x.numpy() for i, x in enumerate(inputs)},
             **{f"out{i}": np.asarray(y) for i, y in enumerate(outputs)})


def main():
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    images, x = Images().eval(), torch.randn(2, 3, 8, 8)
    save("images_traced", torch.jit.trace(images, x), [x])
    save("images_scripted", torch.jit.script(images), [x])
    words, tokens = Words().eval(), torch.randint(0, 11, (2, 6))
    save("words_traced", torch.jit.trace(words, tokens), [tokens])
    save("steps", torch.jit.script(Steps()), [torch.randn(5, 2, 3), torch.tensor(0.1)])
    save("until", torch.jit.script(Until()), [torch.rand(3)])


if __name__ == "__main__":
    main()
