"""Finds the node of a model whose values differ from those of another implementation: relayvm.compare."""

import os

import numpy

from ._study import Difference, recorded

__all__ = ["Comparison", "Difference", "compare"]


class Comparison:
    """What relayvm.compare found.

    outputs: the model's own outputs, compiled as always; nodes: each tensor that a node gives, in the order of the model, if
    one of the outputs differed or `all` was asked for; first: the first of `nodes` that differs although what its node
    reads agrees, else None; alone: that node by itself, on the reference's inputs: a Difference for each of its outputs (one
    that agrees means that rounding before the node is the cause), or the text of an error; fused: the first tensor that differs
    only when the nodes before it are compiled together with its own, if `nodes` all agree, else None; agrees: all outputs
    and nodes do.
    """

    def __init__(self):
        self.outputs, self.nodes, self.first, self.alone, self.fused = [], [], None, None, None
        self._repro = None  # (suffix and bytes of a model of one node, its inputs, the reference's outputs)

    @property
    def agrees(self):
        return all(difference.agrees for difference in [*self.outputs, *self.nodes])

    def save(self, folder):
        """Writes the first node that differs as a model of its own, with its inputs and the reference's outputs: model.onnx or
        model.pt2, inputs.npz, expected.npz. Raises ValueError if there is none."""
        if self._repro is None:
            raise ValueError("no node differs; there is nothing to save")
        suffix, model, inputs, expected = self._repro
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"model{suffix}"), "wb") as file:
            file.write(model)
        numpy.savez(os.path.join(folder, "inputs.npz"), **inputs)
        numpy.savez(os.path.join(folder, "expected.npz"), **expected)

    def __str__(self):
        agreeing = sum(difference.agrees for difference in self.outputs)
        lines = [f"{agreeing} of {len(self.outputs)} outputs agree"]
        lines += [f"  {difference}" for difference in self.outputs if not difference.agrees]
        if self.nodes:
            lines.append(f"{sum(difference.agrees for difference in self.nodes)} of {len(self.nodes)} tensors of nodes agree")
        if self.first is not None:
            lines.append(f"the first node that differs: {self.first}")
            if isinstance(self.alone, str):
                lines.append(f"  alone, on the reference's inputs: {self.alone}")
            elif all(difference.agrees for difference in self.alone):
                lines.append("  alone, on the reference's inputs, it agrees: differences before it, within the tolerance, grow there")
            else:
                lines += [f"  alone, on the reference's inputs: {difference}" for difference in self.alone]
        if self.fused is not None:
            lines.append(f"differs only if compiled together with the nodes before it: {self.fused}")
        return "\n".join(lines)


def compare(model, inputs=None, *, reference=None, tolerance=None, shapes=None, freeze=None, all=False, seed=0, target="host",
            opt_level=2, threads=1):
    """Runs a model here and in a reference, and finds the first node whose values differ: a Comparison.

    model: an ONNX model, as a path, bytes, or an onnx.ModelProto; or an exported program of PyTorch, as the path or the bytes of a .pt2
    file, or a torch.export.ExportedProgram. inputs: arrays by name; those that are left out are random, with 4 for an extent
    that the model leaves open. shapes: extents of inputs by name, for which the program is compiled. freeze: values of inputs
    that never change, as of import_onnx. reference: the program that runs the model, "onnxruntime" or "torch", by default that of its
    format; or a mapping of names to recorded arrays, the path of an .npz file of them: outputs of the model, and of any nodes, as
    relayvm.torch.record gives them. tolerance: the largest error that counts as rounding, relative to the largest number of a
    tensor; by default by dtype. all: compare each node even if all outputs agree. target, opt_level: as of compile; threads: for
    big kernels.

    Needs the package onnx for ONNX models, and the reference. Raises ImportFailed if the model cannot be imported, ValueError for
    wrong arguments.
    """
    study = _study(model, tolerance, {"target": target, "opt_level": opt_level}, threads)
    study.frozen, study.shapes = {name: study.array(name, value) for name, value in (freeze or {}).items()}, dict(shapes or {})
    study.inputs = study.complete({**(inputs or {}), **study.frozen}, numpy.random.default_rng(seed))
    if reference not in (None, study.program):
        study.reference = recorded(reference, f'"{study.program}"')
    found = Comparison()
    found.outputs = study.differences(study.outputs, study.ours(), study.theirs(study.outputs), of_nodes=False)
    if all or not found.agrees:
        study.compare_nodes(found)
    return found


def _study(model, *options):
    is_path = isinstance(model, (str, os.PathLike))
    is_bytes = isinstance(model, (bytes, bytearray))
    is_archive = (is_path and os.fspath(model).endswith(".pt2")) or (is_bytes and model[:4] == b"PK\x03\x04")
    if is_archive or type(model).__name__ == "ExportedProgram":
        from ._compare_torch import TorchStudy
        return TorchStudy(model, *options)
    from ._compare_onnx import OnnxStudy
    return OnnxStudy(model, *options)
