"""Graphs of ATen operators, as AOTAutograd makes them, as programs of Relay."""

import functools
import io
import re

import torch
from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                                          SymIntArgument, TensorArgument)
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import _compiler
from ._settings import Unsupported, place_of

aten, prims = torch.ops.aten, torch.ops.prims


class Graph:
    """A graph, divided into a program and its tail: views and integers at its end, which PyTorch computes, so that
    outputs alias what the graph says.

    `inputs`: the positions of the arguments that the program takes, in its order. `names`: those of its parameters.
    `layouts`: for each result of the program the order of its axes in memory, None for rows. `numbers`: the results
    that are no tensors. `tail`: computes the outputs from the results and the arguments at `tail_inputs`.
    """

    def __init__(self, module):
        self.inputs, self.names, self.layouts, self.numbers = [], [], [], set()
        self._constants, self._traces = {}, {}
        for part in module.modules():  # also branches and bodies of loops
            if isinstance(part, torch.fx.GraphModule):
                _simplify(part)
        self._nodes = list(module.graph.nodes)
        self._placeholders = [node for node in self._nodes if node.op == "placeholder"]
        self._check()
        results = self._divide(module)
        self._data = self._serialize(module, self._program(module, results), len(results)) if results else None

    @property
    def has_program(self):
        """False if the tail is all of it."""
        return self._data is not None

    def imported(self, frozen=None):
        """The program, a Module; `frozen`: values of parameters. Raises Unsupported."""
        try:
            with _disable_current_modes():  # of AOTAutograd, in which tensors have no elements
                given = {name: value.detach() for name, value in {**self._constants, **(frozen or {})}.items()}
                return _compiler.import_torch(self._data, freeze=given)
        except _compiler.ImportFailed as error:
            raise Unsupported(self.reasons(error), error) from error

    def reasons(self, error):
        """The reasons of an error of the compiler, as Unsupported has them."""
        found = []
        for diagnostic in error.diagnostics:
            for line in diagnostic.message.splitlines():
                match = re.match(r"([\w.:]+): (.*) \(`(\w+)`.*\)$", line.strip())
                if match and match[3] in self._traces:
                    found.append((f"the operator {match[1]}", match[2], self._place(match[3])))
        return found or [("RelayVM", str(error).removeprefix("error: "), "")]

    def places_in(self, text):
        """The lines of the user's program of the nodes that a text, such as a backtrace, names."""
        places = (self._place(name) for name in re.findall(r"node `(\w+)`", text))
        return list(dict.fromkeys(place for place in places if place))

    # ---- inside

    def _place(self, name):
        return place_of(self._traces.get(name))

    def _check(self):
        """Raises Unsupported for tensors that are not of this machine."""
        for node in self._nodes:
            self._traces[node.name] = node.meta.get("stack_trace")
            for value in _pytree.tree_leaves(node.meta.get("val")):
                if not isinstance(value, torch.Tensor):
                    continue
                subject = f"the operator {node.target}" if node.op == "call_function" else "an input"
                if value.device.type != "cpu":
                    why = f"its tensor is on the device {value.device}; RelayVM takes those of the CPU"
                elif value.layout != torch.strided:
                    why = f"its layout is {value.layout}; RelayVM takes dense tensors"
                else:
                    continue
                raise Unsupported([(subject, why, self._place(node.name))])

    def _divide(self, module):
        """Makes the tail. Returns the nodes that the program computes for it."""
        outputs = self._nodes[-1].args[0]
        results, arguments, made = [], [], {}
        tail = torch.fx.Graph()

        @functools.cache
        def in_tail(node):
            """Whether a node can be computed of arguments, and of results as their views."""
            if node.op == "placeholder":
                return True
            if node.op != "call_function":
                return False
            is_number = isinstance(node.meta.get("val"), torch.SymInt)
            return (is_number or _is_view(node)) and all(
                in_tail(given) for given in node.all_input_nodes if is_number or not _is_tensor(given))

        def visit(node):
            if node in made:
                return
            if in_tail(node) and node.op != "placeholder":
                for given in node.all_input_nodes:
                    visit(given)
                made[node] = ("node", node)
            elif node.op == "placeholder":
                made[node] = ("argument", len(arguments))
                arguments.append(node)
            else:
                made[node] = ("result", len(results))
                results.append(node)

        for value in outputs:
            if isinstance(value, torch.fx.Node):
                visit(value)
        values = {}
        for kind, nodes in ("result", results), ("argument", arguments):
            for i, node in enumerate(nodes):
                values[node] = tail.placeholder(f"{kind}_{i}")
        for node in self._nodes:
            if made.get(node, ("",))[0] == "node":
                values[node] = tail.node_copy(node, lambda old: values[old])
        tail.output(tuple(values[v] if isinstance(v, torch.fx.Node) else v for v in outputs))
        self.tail = torch.fx.GraphModule({}, tail).forward
        positions = {node: i for i, node in enumerate(self._placeholders)}
        self.tail_inputs = [positions[node] for node in arguments]
        for i, node in enumerate(results):
            value = node.meta.get("val")
            self.layouts.append(_layout(value) if _is_tensor(node) else None)
            if not _is_tensor(node):
                self.numbers.add(i)
        return results

    def _program(self, module, results):
        """The graph that computes the results."""
        needed, waiting = set(), [*results, *filter(_is_check, self._nodes)]
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting += node.all_input_nodes
        extents = self._extents(needed)
        graph, values, sizes = torch.fx.Graph(), {}, []
        for node in self._nodes:
            if node.op == "get_attr" and node in needed and isinstance(getattr(module, node.target), torch.Tensor):
                values[node] = _placeholder(graph, node, f"constant_{node.name}", getattr(module, node.target))
                self._constants[values[node].name] = getattr(module, node.target)
        for position, node in enumerate(self._placeholders):
            value = node.meta.get("val")
            source = extents.get(value.node.expr) if isinstance(value, torch.SymInt) else None
            if node not in needed and not any(node is tensor for tensor, _ in extents.values()):
                continue
            if source is not None:
                sizes.append((node, *source))
                continue
            if not isinstance(value, (torch.Tensor, torch.SymInt)):
                raise Unsupported([(f"an input of type {type(value).__name__}", "it is no tensor and no integer", "")])
            values[node] = _placeholder(graph, node, node.name, value)
            self.inputs.append(position)
            self.names.append(values[node].name)
        for node, tensor, axis in sizes:
            values[node] = graph.call_function(aten.sym_size.int, (values[tensor], axis))
            values[node].meta["val"] = node.meta["val"]
        for node in self._nodes:
            if node in needed and node not in values:
                made = values[node] = graph.node_copy(node, lambda old: values[old])
                made.meta = {"val": node.meta.get("val"), "nn_module_stack": _modules(node)}
        graph.output(tuple(values[node] for node in results))
        return graph

    def _extents(self, needed):
        """The tensor and the axis that have a symbol as extent, by symbol, for the integers that are needed."""
        wanted = {node.meta["val"].node.expr for node in self._placeholders
                  if node in needed and isinstance(node.meta.get("val"), torch.SymInt)}
        found = {}
        for node in sorted(filter(_is_tensor, self._placeholders), key=lambda node: node not in needed):
            for axis, extent in enumerate(node.meta["val"].shape):
                if isinstance(extent, torch.SymInt) and extent.node.expr in wanted:
                    found.setdefault(extent.node.expr, (node, axis))
        return found

    def _serialize(self, module, graph, count):
        def argument(node):
            return (TensorArgument if _is_tensor(node) else SymIntArgument)(name=node.name)

        nodes = list(graph.nodes)
        inputs = [argument(node) for node in nodes if node.op == "placeholder"]
        outputs = [argument(node) for node in nodes[-1].args[0]]
        signature = ExportGraphSignature([InputSpec(InputKind.USER_INPUT, given, None) for given in inputs],
                                         [OutputSpec(OutputKind.USER_OUTPUT, given, None) for given in outputs])
        call = ModuleCallSignature(inputs, outputs, _pytree.tree_structure((tuple(range(len(inputs))), {})),
                                   _pytree.tree_structure(tuple(range(count))))
        try:
            program = ExportedProgram(module, graph, signature, {}, {}, [ModuleCallEntry("", call)])
            program._guards_code = []  # Dynamo checks them
            file = io.BytesIO()
            torch.export.save(program, file)
        except Exception as error:  # of PyTorch: the graph has what its format has not
            named = next((name for name in self._traces if re.search(rf"\b{re.escape(name)}\b", str(error))), "")
            lines = str(error).strip().splitlines() or [repr(error)]
            raise Unsupported([("torch.export.save", lines[0], self._place(named))], error) from error
        return file.getvalue()


def _is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_check(node):
    """Whether a node has no result, such as one that checks its inputs."""
    return isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.returns


def _simplify(module):
    """Replaces what exported programs do not have, keeping what the graph computes: operators without results that
    AOTAutograd orders by tokens, since nodes stay in their order, and names of operators of PyTorch's compilers."""
    for node in list(module.graph.nodes):
        if node.target is prims.convert_element_type.default:
            value, dtype = node.args
            node.target, node.args, node.kwargs = aten._to_copy.default, (value,), {"dtype": dtype}
        elif node.target is torch.ops.higher_order.with_effects and not node.args[1]._schema.returns:
            with module.graph.inserting_before(node):
                check = module.graph.call_function(node.args[1], node.args[2:], node.kwargs)
            check.meta = {key: value for key, value in node.meta.items() if key != "val"}
            for token in list(node.users):
                token.replace_all_uses_with(node.args[0])
                module.graph.erase_node(token)
            module.graph.erase_node(node)
    module.recompile()


def _is_view(node):
    """Whether the results of a node are views of its first input."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return getattr(node.target, "__name__", "") == "getitem" and _is_view(node.args[0])
    return any(argument.alias_info is not None and not argument.alias_info.is_write
               for argument in node.target._schema.arguments)


def _placeholder(graph, node, name, value):
    made = graph.placeholder(name)
    made.meta["val"] = node.meta.get("val", value)
    return made


def _modules(node):
    """The modules of a node as exported programs have them: names and classes, from the outermost on."""
    stack = {}
    for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
        path = re.sub(r"\._modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]", lambda m: "." + next(filter(None, m.groups())),
                      path.removeprefix("L['self']"))
        stack[key] = path.lstrip("."), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return stack


def _layout(value):
    """The axes of a tensor from the one with the largest stride on, if it does not lie in rows."""
    strides = [stride if isinstance(stride, int) else stride.node.hint for stride in value.stride()]
    shape = [extent if isinstance(extent, int) else extent.node.hint for extent in value.shape]
    if None in strides or None in shape:
        return None
    order = sorted((axis for axis in range(len(shape)) if shape[axis] != 1), key=lambda axis: -strides[axis])
    if order == sorted(order) or 0 in (strides[axis] for axis in order):
        return None
    return order + [axis for axis in range(len(shape)) if axis not in order]
