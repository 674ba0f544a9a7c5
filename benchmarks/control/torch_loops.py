"""Programs of `./run bench control` in PyTorch, eager and as TorchScript. They need only Python, numpy and torch."""

import torch


def tensor_loop(n: int, a: torch.Tensor, b: torch.Tensor, limit: torch.Tensor) -> float:
    x = torch.zeros(4)
    i = 0
    while i < n and bool(x.sum() <= limit):
        x = a * x + b
        i += 1
    return float(x.sum())


def viterbi(n: int, scores: torch.Tensor, steps: torch.Tensor) -> int:
    best = scores[0]
    rows = [best.argmax(dim=0, keepdim=True)]
    for t in range(1, n):
        most, row = torch.max(steps + best, dim=1)
        rows.append(row)
        best = most + scores[t]
    state = int(best.argmax())
    total = state
    for k in range(n - 1):
        state = int(rows[n - 1 - k][state])
        total = (total * 31 + state) % 1000003
    return total


def decoder(n: int, embedding: torch.Tensor, recurrent: torch.Tensor, output: torch.Tensor) -> int:
    total = 0
    for i in range(n):
        token = i % 31 + 1
        state = torch.zeros(16)
        for _ in range(20):
            state = torch.tanh(torch.mv(recurrent, state) + embedding[token])
            token = int(torch.mv(output, state).argmax())
            total = (total * 31 + token) % 1000003
            if token == 0:
                break
    return total


FUNCTIONS = {function.__name__: function for function in (tensor_loop, viterbi, decoder)}


def runner(name, n, arrays, script):
    """A function without arguments that runs the program once."""
    torch.set_num_threads(1)
    function = torch.jit.script(FUNCTIONS[name]) if script else FUNCTIONS[name]
    tensors = [torch.from_numpy(array) for array in arrays]

    def run():
        with torch.inference_mode():
            return function(n, *tensors)
    return run
