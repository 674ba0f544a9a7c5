import numpy as np


def run(n, embedding, recurrent, output):
    total = 0
    for i in range(n):
        token, state = i % 31 + 1, np.zeros(16, np.float32)
        for _ in range(20):
            state = np.tanh(recurrent @ state + embedding[token])
            token = int((output @ state).argmax())
            total = (total * 31 + token) % 1000003
            if token == 0:
                break
    return total
