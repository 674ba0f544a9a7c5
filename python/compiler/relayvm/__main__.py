"""python -m relayvm compare: relayvm.compare on the command line."""

import argparse
import ast
import os
import sys

import numpy

from . import Error, compare


def _pair(text):
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"saw {text!r}; expected NAME=VALUE")
    return name, value


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m relayvm", description="Tools of the package relayvm")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("compare", help="find the first node of a model whose values differ from a reference's",
                            description="Runs a model here and in a reference, and finds the first node whose values differ.")
    verb.add_argument("model", help="an .onnx or .pt2 file")
    verb.add_argument("--with", dest="reference", metavar="REFERENCE",
                      help="onnxruntime or torch, by default that of the format, or an .npz file with recorded tensors by name")
    verb.add_argument("--input", type=_pair, action="append", default=[], metavar="NAME=FILE.npy", help="an input; others are random")
    verb.add_argument("--shape", type=_pair, action="append", default=[], metavar="NAME=1,3,224,224", help="the shape of an input")
    verb.add_argument("--freeze", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="an input that never changes: a number, or a .npy file")
    verb.add_argument("--tolerance", type=float, help="the largest error that is rounding, relative to the largest number of a tensor (by dtype)")
    verb.add_argument("--all", action="store_true", help="compare the tensors of all nodes, even if the outputs agree")
    verb.add_argument("--seed", type=int, default=0, help="of random inputs (0)")
    verb.add_argument("--target", default="host", help="as `relayvm compile --target` (host)")
    verb.add_argument("-O", dest="opt_level", type=int, default=2, help="level of optimization (2)")
    verb.add_argument("--save", metavar="DIR", help="write the first node that differs as a model of its own, with inputs and expected outputs")
    verb.add_argument("--verbose", action="store_true", help="print all tensors that were compared")
    return parser.parse_args(arguments)


def main(arguments=None):
    """0: all agrees; 1: something differs; 2: an error."""
    options = _parse(arguments)
    try:
        inputs = {name: numpy.load(path) for name, path in options.input}
        shapes = {name: [int(extent) for extent in extents.split(",") if extent] for name, extents in options.shape}
        frozen = {name: numpy.load(value) if value.endswith(".npy") else ast.literal_eval(value) for name, value in options.freeze}
        found = compare(options.model, inputs, reference=options.reference, tolerance=options.tolerance, shapes=shapes, freeze=frozen,
                        all=options.all, seed=options.seed, target=options.target, opt_level=options.opt_level)
        if options.verbose:
            for difference in found.nodes or found.outputs:
                print(f"{'  ' if difference.agrees else '! '}{difference}")
        print(found)
        if options.save and found.first is not None:
            found.save(options.save)
            print(f"wrote {os.path.join(options.save, 'model' + os.path.splitext(options.model)[1])}, inputs.npz, expected.npz")
    except (Error, ImportError, OSError, SyntaxError, ValueError) as error:
        print(f"error: {str(error).removeprefix('error: ')}", file=sys.stderr)
        return 2
    return 0 if found.agrees else 1


if __name__ == "__main__":
    sys.exit(main())
