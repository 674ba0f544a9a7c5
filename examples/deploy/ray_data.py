"""Ray Data: scores rows of lists of different lengths with an .rvm file, loaded once in each actor.

    pip install 'ray[data]' relayvm-runtime
    python examples/deploy/ray_data.py words.rvm
"""

import sys

import numpy
import ray
import relayvm_runtime


class Score:
    def __init__(self, path):
        self.program = relayvm_runtime.load(path)  # the path, not the program: actors share the mapped file

    def __call__(self, batch):
        return {"id": batch["id"], "score": numpy.array([self.program(words) for words in batch["words"]])}


def score(rows, path, actors=2):
    """`rows`: dictionaries with `id` and `words`; the data set of their scores."""
    return ray.data.from_items(rows).map_batches(Score, fn_constructor_args=(path,), concurrency=actors, batch_size=128)


if __name__ == "__main__":
    rows = [{"id": i, "words": list(range(1 + i % 7))} for i in range(1000)]
    print(score(rows, sys.argv[1]).to_pandas().sort_values("id").head())
