import numpy as np


def run(n, a, b, limit):
    x = np.zeros(4, np.float32)
    for _ in range(n):
        if x.sum() > limit:
            break
        x = a * x + b
    return float(x.sum())
