"""Programs of `./run bench control` as loops of JAX, which JAX runs, or IREE after it has compiled them.

JAX has no recursion, lists or trees.
"""

import os

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
import jax  # noqa: E402  pylint: disable=wrong-import-position
import jax.numpy as jnp  # noqa: E402  pylint: disable=wrong-import-position
from jax import lax  # noqa: E402  pylint: disable=wrong-import-position

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def counter(n):
    def step(state):
        i, total = state
        return i + 1, total + i * i
    zero = jnp.int64(0)
    return lax.while_loop(lambda state: state[0] != n, step, (zero, zero))[1]


def tokenizer(n, text):
    def step(i, carry):
        state, code, total = carry
        byte = text[i].astype(jnp.int64)
        is_letter, is_digit = (byte >= 97) & (byte < 123), (byte >= 48) & (byte < 58)
        now = jnp.where(is_letter, 1, jnp.where(is_digit, 2, 0))
        goes_on = now == state
        longer = jnp.where(state == 0, 0, (code * 31 + byte) % 1000003)
        new = jnp.where(now == 0, 0, byte)
        return now, jnp.where(goes_on, longer, new), jnp.where(goes_on, total, total + code + state)
    zero = jnp.int64(0)
    _, code, total = lax.fori_loop(0, n, step, (zero, zero, zero))
    return total + code


def tensor_loop(n, a, b, limit):
    def step(state):
        i, x = state
        return i + 1, a * x + b
    def goes_on(state):
        i, x = state
        return (i < n) & (x.sum() <= limit)
    return lax.while_loop(goes_on, step, (jnp.int64(0), jnp.zeros(4, jnp.float32)))[1].sum()


def viterbi(n, scores, steps):
    def forward(t, carry):
        best, rows = carry
        ways = steps + best
        return ways.max(axis=1) + scores[t], rows.at[t].set(ways.argmax(axis=1))
    best, rows = lax.fori_loop(1, n, forward, (scores[0], jnp.zeros(scores.shape, jnp.int64)))

    def backward(k, carry):
        state, total = carry
        state = rows[n - k, state]
        return state, (total * 31 + state) % 1000003
    state = best.argmax()
    return lax.fori_loop(1, n, backward, (state, state))[1]


def decoder(n, embedding, recurrent, output):
    def write(carry):
        step, token, state, total, _ = carry
        state = jnp.tanh(recurrent @ state + embedding[token])
        token = (output @ state).argmax()
        return step + 1, token, state, (total * 31 + token) % 1000003, token != 0

    def sequence(i, total):
        first = (jnp.int64(0), i % 31 + 1, jnp.zeros(16, jnp.float32), total, jnp.bool_(True))
        return lax.while_loop(lambda carry: (carry[0] < 20) & carry[4], write, first)[3]
    return lax.fori_loop(jnp.int64(0), n, sequence, jnp.int64(0))


FUNCTIONS = {function.__name__: function for function in (counter, tokenizer, tensor_loop, viterbi, decoder)}


def compiled_by_iree(function, arguments):
    """The function as IREE's module for this processor, on arrays that its device has."""
    # pylint: disable=import-outside-toplevel
    from iree import compiler, runtime
    from jax import export
    shapes = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in arguments]
    text = export.export(jax.jit(function))(*shapes).mlir_module_serialized
    module = compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"],
                                  extra_args=["--iree-llvmcpu-target-cpu=host"])
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, module))
    main = context.modules[next(name for name in context.modules.keys() if name.startswith("jit"))].main
    on_device = [runtime.asdevicearray(config.device, argument) for argument in arguments]
    return lambda: main(*on_device).to_host()


def runner(name, n, arrays, by_iree):
    """A function without arguments that runs the program once."""
    arguments = [np.array(n, np.int64), *map(np.asarray, arrays)]
    if by_iree:
        run = compiled_by_iree(FUNCTIONS[name], arguments)
    else:
        on_device = [jnp.asarray(argument) for argument in arguments]
        function = jax.jit(FUNCTIONS[name])
        run = lambda: function(*on_device)  # pylint: disable=unnecessary-lambda-assignment
    return lambda: np.asarray(run()).item()
