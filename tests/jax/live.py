"""Programs of JAX live beside JAX: exported, imported and run here, and compared with what JAX computes.

    python tests/jax/live.py harnesses [--each N] [--group PART]   the programs that JAX tests its lowering with
    python tests/jax/live.py functions                             jax.numpy, jax.nn, jax.lax, gradients, networks
    python tests/jax/live.py keras                                 layers of Keras on JAX, of fixed and symbolic batch
    python tests/jax/live.py versions                              the programs of make.py as artifacts of each version of StableHLO

The Python needs jax (and keras, flax); it is no part of the tree's own environment. Prints a line for each program that
is not equal, and a table of counts. The exit status is 1 if any is wrong.
"""

import argparse
import collections
import os
import sys
import traceback
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("RELAYVM_LIBRARY", f"{ROOT}/bazel-bin/capi/librelayvm.so.1")
os.environ.setdefault("RELAYVM_COMPILER_LIBRARY", f"{ROOT}/bazel-bin/capi/compiler/librelayvm_compiler.so.1")
sys.path[:0] = [f"{ROOT}/python/runtime", f"{ROOT}/python/compiler"]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export, lax  # noqa: E402

import relayvm  # noqa: E402

TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-2, "bfloat16": 8e-2, "float8_e4m3fn": 0.3}


def pairs(array):
    """Complex numbers as pairs along a last axis, as programs take and give them."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def difference(got, want):
    """Why two arrays are not the same; "" if they are."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
    if want.dtype.kind not in "fV":
        places = np.argwhere(got != want)
        return "" if not len(places) else f"{len(places)} of {want.size} differ, first {tuple(places[0])}: {got[tuple(places[0])]} for {want[tuple(places[0])]}"
    near = TOLERANCE[str(want.dtype)]
    a, b = got.astype("float64"), want.astype("float64")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in other places"
    infinite = np.isinf(b)
    if not np.array_equal(a[infinite], b[infinite]) or np.isinf(a[~infinite]).any():
        return "infinities in other places"
    finite = np.isfinite(b)
    scale = max(1.0, float(np.abs(b[finite]).max())) if finite.any() else 1.0
    error = float(np.abs(a - b)[finite].max()) / scale if finite.any() else 0.0
    return "" if error <= near else f"error {error:.2g} of {scale:.3g}"


class Counts:
    def __init__(self, verbose):
        self.counts, self.reasons, self.verbose = collections.Counter(), collections.Counter(), verbose

    def note(self, name, state, why=""):
        self.counts[state] += 1
        if state == "refused":
            for line in why.splitlines()[1:] or [why]:
                self.reasons[line.split(" (`")[0].split(" (at offset")[0][:150]] += 1
        if state not in ("equal", "skipped") and (state != "refused" or self.verbose):
            print(f"{state}\t{name}\t{why[:600]!r}", flush=True)

    def check(self, name, function, arguments, specs=None, seen=lambda array: array):
        """Compares a function of arrays, exported for `specs`, by default the types of the arrays. `seen`: what of a result is compared."""
        try:
            exported = export.export(jax.jit(function, keep_unused=True))(*(specs or arguments))
            content = bytes(exported.serialize())
            want = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(jax.jit(function)(*arguments))]
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.note(name, "skipped", str(error))
            return
        if not want:
            self.note(name, "skipped", "no results")
            return
        self.compare(name, content, arguments, want, seen)

    def compare(self, name, content, arguments, want, seen=lambda array: array):
        """Compares what a file gives."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                executable = relayvm.compile(relayvm.import_stablehlo(content), opt_level=2)
            got = executable(*(pairs(np.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(arguments)))
            got = [np.asarray(leaf) for leaf in (got if isinstance(got, tuple) else [got])]
            whys = [f"result {i}: {why}" for i, why in enumerate(map(difference, map(seen, got), (seen(pairs(one)) for one in want))) if why]
            self.note(name, "wrong" if whys or len(got) != len(want) else "equal", "; ".join(whys))
        except relayvm.ImportFailed as error:
            self.note(name, "refused", str(error))
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.note(name, "error", f"{type(error).__name__}: {error}" + ("" if isinstance(error, relayvm.Error) else traceback.format_exc()[-300:]))

    def show(self):
        print("reasons of refusals:")
        for why, count in self.reasons.most_common(60):
            print(f"  {count}\t{why}")
        print(dict(self.counts))


def harnesses(counts, each, group):
    from jax._src.internal_test_util import test_harnesses
    groups = collections.defaultdict(list)
    for harness in test_harnesses.all_harnesses:
        groups[harness.group_name].append(harness)
    for name, members in sorted(groups.items()):
        if group and group not in name:
            continue
        step = max(1, len(members) // each) if each else 1
        for harness in members[::step][:each or None]:
            # Equal keys have no order in a sort that is not stable, and few bits make equal ones; vectors without a singular value are free.
            has_order = not any(all(part in harness.fullname for part in parts)
                                for parts in (("isstable_False", "multiple"), ("approx_top_k", "float16"), ("svd", "fullmatrices_True")))
            if not harness.filter("cpu") or not has_order:
                counts.note(harness.fullname, "skipped")
                continue
            try:
                arguments = [np.asarray(jnp.asarray(x)) for x in harness.dyn_args_maker(np.random.RandomState(0))]
            except Exception:  # pylint: disable=broad-exception-caught
                counts.note(harness.fullname, "skipped")
                continue
            # The signs of vectors are free.
            counts.check(harness.fullname, harness.dyn_fun, arguments, seen=np.abs if name in ("eigh", "svd") else lambda array: array)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=("harnesses", "functions", "keras", "versions"))
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("--group", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    counts = Counts(options.verbose)
    if options.suite == "harnesses":
        harnesses(counts, options.each, options.group)
    else:
        import suites
        getattr(suites, options.suite)(counts, options.group)
    counts.show()
    return 1 if counts.counts["wrong"] or counts.counts["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
