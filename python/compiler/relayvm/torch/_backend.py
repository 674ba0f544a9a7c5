"""The backend "relayvm" of torch.compile. AOTAutograd makes graphs without writes of what Dynamo captures, forward and
backward; each becomes a program of Relay. Arguments that are written, outputs that alias them and gradients are its work."""

import contextlib

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import TracingContext
from torch.nn.attention import SDPBackend, sdpa_kernel

from .. import _torch
from . import _decompositions, _settings
from ._calls import Compiled
from ._graphs import Graph
from ._settings import Settings, Unsupported


def backend(graph, inputs, *, options=None, mode=None):
    """Compiles a graph of Dynamo; what torch.compile(backend="relayvm", options=...) calls.

    A graph that RelayVM cannot run, all of it, is returned as it is, with a warning that names the operators, unless
    options={"fallback": False}.
    """
    if mode is not None:
        raise ValueError(f"saw mode={mode!r}; the backend relayvm has options instead, such as options={{\"threads\": 4}}")
    settings = Settings.of(options)
    if settings.threads is None:
        settings = settings._replace(threads=torch.get_num_threads())
    try:
        return _compile(graph, inputs, settings, _decompositions.usual())
    except Unsupported as error:
        with contextlib.suppress(Unsupported):
            return _compile(graph, inputs, settings, _decompositions.most())
        if not settings.fallback:
            raise error.cause or error
        _settings.warn(error.reasons)
        return graph.forward


def _compile(graph, inputs, settings, decompositions):
    def inference(module, _):
        return _compiled(module, settings, _unchanged())

    def forward(module, _):
        return _compiled(module, settings, ())

    def backward(module, _):
        try:
            return _compiled(module, settings, ())
        except Unsupported as error:
            if not settings.fallback:
                raise error.cause or error
            _settings.warn(error.reasons)
            return make_boxed_func(module.forward)

    if torch.is_grad_enabled() and any(isinstance(given, torch.Tensor) and given.requires_grad for given in inputs):
        context = sdpa_kernel(SDPBackend.MATH)  # the fused operator has a gradient that cannot be decomposed
    else:
        context = contextlib.nullcontext()
        _torch.roll(graph.graph)
        graph.recompile()
    compilers = aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference,
                             decompositions=dict(decompositions))
    with context:
        return compilers(graph, inputs)


def _compiled(module, settings, static):
    graph = Graph(module)
    if graph.has_program:
        graph.imported()  # says what is not supported, while the graph can still run eagerly
    compiled = Compiled(graph, settings, static, module.forward)

    def call(args):
        return compiled(args)

    call._boxed_call = True
    return call


def _unchanged():
    """The positions of parameters and buffers that the graph does not write to."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return ()
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}
    return [i for i in metadata.static_input_indices if i not in written]

