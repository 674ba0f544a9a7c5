"""Exports the samples of PyTorch's own table of operators: see README.md.

    python make_samples.py FOLDER [--names REGEX] [--jobs N] [--samples N] [--limit SECONDS]

For each sample, FOLDER/OPERATOR/DTYPE.NUMBER.traced.pt2 and .core.pt2 are the programs before and after
run_decompositions(), and .npz has the arguments (`in.N`), PyTorch's results (`out.N`) and `random`, which is 1 where
an operator draws random numbers or the results differ from run to run. FORM.reason says why PyTorch does not export a
program. Operators that have a folder are left as they are.
"""

import argparse
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import shutil
import signal
import time
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

DTYPES = {"float32": torch.float32, "int64": torch.int64}


class Call(torch.nn.Module):
    """An operator applied to tensors; all other arguments are constants."""

    def __init__(self, function, leaves, spec):
        super().__init__()
        self.function, self.leaves, self.spec = function, leaves, spec

    def forward(self, *tensors):
        rest = iter(tensors)
        leaves = [next(rest) if leaf is None else leaf[0] for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def split(sample):
    """(the call, its tensors)"""
    leaves, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    constants = [None if tensor else (leaf,) for leaf, tensor in zip(leaves, is_tensor)]
    return constants, spec, [leaf for leaf, tensor in zip(leaves, is_tensor) if tensor]


def arrays(results):
    """The leaves of a result, as the importer gives them."""
    return [leaf.detach().clone().resolve_conj().resolve_neg().numpy() if isinstance(leaf, torch.Tensor) else numpy.array(leaf)
            for leaf in tree_leaves(results) if leaf is not None]


def evaluate(call, tensors, seed):
    torch.manual_seed(seed)
    return arrays(call(*[tensor.clone() for tensor in tensors]))


def draws(exported):
    """Whether an operator of the program draws random numbers, by PyTorch's own tag."""
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
               for module in exported.graph_module.modules() if isinstance(module, torch.fx.GraphModule)
               for node in module.graph.nodes)


class OutOfTime(Exception):
    pass


def out_of_time(*_):
    raise OutOfTime("it takes too long")


def write_sample(path, call, tensors, table, limit):
    """Writes the programs of a sample, each within `limit` seconds, and then its arguments and results."""
    expected, again = (evaluate(call, tensors, seed) for seed in (1, 2))
    exported, is_random = None, "empty" in path
    for form in ("traced", "core"):
        signal.alarm(limit)
        try:
            if form == "traced":
                exported = torch.export.export(call, tuple(tensor.clone() for tensor in tensors))
                is_random |= draws(exported)
                exported.example_inputs = None
            else:
                exported = exported.run_decompositions(table)
            torch.export.save(exported, f"{path}.{form}.pt2")
        except Exception as error:  # pylint: disable=broad-except
            with open(f"{path}.{form}.reason", "w", encoding="utf-8") as file:
                file.write(f"{type(error).__name__}: {error}"[:2000])
            break
        finally:
            signal.alarm(0)
    is_random |= any(not numpy.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(expected, again))
    named = {f"{kind}.{i}": array for kind, list_ in (("in", [tensor.numpy() for tensor in tensors]), ("out", expected))
             for i, array in enumerate(list_)}
    numpy.savez(path + ".npz", random=is_random, **named)


def write_operator(folder, op, count, table, limit):
    """Writes the samples of an operator, in a process of its own."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, out_of_time)
    for name, dtype in DTYPES.items():
        if not op.supports_dtype(dtype, "cpu"):
            continue
        torch.manual_seed(0)
        numpy.random.seed(0)
        for number, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), count)):
            constants, spec, tensors = split(sample)
            try:
                write_sample(f"{folder}/{name}.{number}", Call(op.op, constants, spec), tensors, table, limit)
            except Exception as error:  # pylint: disable=broad-except
                print(f"{op.name} {name} {number}: PyTorch itself: {type(error).__name__}: {error}"[:300], flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--names", default="", help="a regular expression that chooses operators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--samples", type=int, default=3, help="of each operator and dtype, at most")
    parser.add_argument("--limit", type=int, default=20, help="seconds for a program")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    work = []
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}"
        if re.search(options.names, name) and not os.path.exists(os.path.join(options.folder, name)):
            work.append((name, op))
    warnings.filterwarnings("ignore")
    table = torch.export.default_decompositions().materialize()
    call = Call(torch.neg, [None], tree_flatten(((0,), {}))[1])
    torch.export.export(call, (torch.zeros(1),)).run_decompositions(table)  # loads modules, once for all processes
    fork, running = multiprocessing.get_context("fork"), {}
    while work or running:
        while work and len(running) < options.jobs:
            name, op = work.pop(0)
            place = os.path.join(options.folder, name + ".part")
            shutil.rmtree(place, ignore_errors=True)
            os.mkdir(place)
            process = fork.Process(target=write_operator, args=(place, op, options.samples, table, options.limit))
            process.start()
            running[process.sentinel] = (process, place, time.monotonic() + 5 * options.samples * options.limit)
        ended = multiprocessing.connection.wait(list(running), timeout=1)
        for sentinel, (process, place, deadline) in list(running.items()):
            if sentinel not in ended and time.monotonic() < deadline:
                continue
            process.kill()
            process.join()
            if process.exitcode != 0:
                print(f"{place}: the process ended with {process.exitcode}", flush=True)
            os.rename(place, place.removesuffix(".part"))
            del running[sentinel]
    with open(os.path.join(options.folder, "version.json"), "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__}, file)


if __name__ == "__main__":
    main()
