"""The work of `./run bench gpu` by others: PyTorch (eager, as a CUDA graph, torch.compile), cuDNN, and JAX, where they are installed.

    python3 peers.py warm|time SECONDS

`warm` only has their compilers run, whose results both keep for `time`. Prints one line for each measurement.
"""

import math
import os
import sys
import time

MODE, END = sys.argv[1], time.monotonic() + float(sys.argv[2])
CACHE = os.path.join(os.environ.get("OUT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "out"), "cache")
for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"), ("JAX_COMPILATION_CACHE_DIR", "jax")):
    os.environ.setdefault(variable, os.path.join(CACHE, name))
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(0)


def microseconds(function, seconds=0.25):
    """(least, median) of calls that wait for their results."""
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    measured, began = [], time.monotonic()
    while time.monotonic() - began < seconds or len(measured) < 10:
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        measured.append((time.perf_counter() - start) * 1e6)
    measured.sort()
    return measured[0], measured[len(measured) // 2]


def as_graph(function):
    """The calls that a function makes, recorded once."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def show(name, function, steps=1, kinds=("eager", "graph", "compiled", "compiled, graph")):
    for kind in kinds:
        if time.monotonic() > END:
            print(f"{name}, {kind}: no time", flush=True)
            return
        try:
            if MODE == "warm":
                if kind == "compiled":
                    torch.compile(function)()
                    torch.cuda.synchronize()
                continue
            timed = torch.compile(function) if "compiled" in kind else function
            least, median = microseconds(as_graph(timed) if "graph" in kind else timed)
            print(f"{name}, {kind}: least {least / steps:.2f}, median {median / steps:.2f} us", flush=True)
        except Exception as error:  # pylint: disable=broad-exception-caught  # the others go on
            print(f"{name}, {kind}: fails: {' '.join(str(error).split())[:200] or type(error).__name__}", flush=True)


def bert(layers, hidden, heads, length, dtype):
    generator = torch.Generator(device="cuda").manual_seed(0)

    def made(*shape):
        return (torch.randn(*shape, device="cuda", generator=generator) / math.sqrt(shape[-1])).to(dtype)

    shapes = {"qkv": (3 * hidden, hidden), "qkv_b": (3 * hidden,), "o": (hidden, hidden), "o_b": (hidden,), "up": (4 * hidden, hidden), "up_b": (4 * hidden,),
              "down": (hidden, 4 * hidden), "down_b": (hidden,), "g1": (hidden,), "b1": (hidden,), "g2": (hidden,), "b2": (hidden,)}
    weights = [{name: made(*shape) for name, shape in shapes.items()} for _ in range(layers)]
    x0 = made(length, hidden)
    f = torch.nn.functional

    def run():
        x = x0
        for w in weights:
            q, k, v = f.linear(x, w["qkv"], w["qkv_b"]).view(length, 3, heads, hidden // heads).permute(1, 2, 0, 3)
            mixed = f.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1).reshape(length, hidden)
            y = f.layer_norm(x + f.linear(mixed, w["o"], w["o_b"]), (hidden,), w["g1"], w["b1"])
            x = f.layer_norm(y + f.linear(f.gelu(f.linear(y, w["up"], w["up_b"])), w["down"], w["down_b"]), (hidden,), w["g2"], w["b2"])
        return x

    return run


def layers(rows, hidden, inner, dtype):
    """Products with biases, as in programs.py."""
    made = lambda *shape: (torch.randn(*shape, device="cuda") / math.sqrt(shape[-1])).to(dtype)
    x0, weights = made(rows, hidden), [made(*shape) for _ in range(6) for shape in ((inner, hidden), (hidden, inner))]
    biases = [made(weight.shape[0]) for weight in weights]

    def run():
        x = x0
        for weight, bias in zip(weights, biases):
            x = torch.nn.functional.linear(x, weight, bias)
        return x

    return run


def feed_forward():
    for shape in ((16, 768, 768), (128, 768, 768), (128, 768, 3072), (1024, 768, 3072)):
        for dtype, title in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16"), (torch.float32, "TF32")):
            torch.backends.cuda.matmul.allow_tf32 = title == "TF32"
            show(f"dense {'x'.join(map(str, shape))}, {title}, a product", layers(*shape, dtype), 12, ("graph",))
    torch.backends.cuda.matmul.allow_tf32 = False


def recurrent():
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        module, tokens = kind(300, 512).cuda().eval(), torch.randn(28, 1, 300, device="cuda")
        show(f"{kind.__name__} 300->512, 28 tokens (cuDNN), a token", lambda m=module, x=tokens: m(x), 28, ("eager", "graph"))
    w_x, w_h, tokens = (torch.randn(*shape, device="cuda") * 0.05 for shape in ((2048, 300), (2048, 512), (28, 300)))

    def cells():
        sums = tokens @ w_x.T
        h = c = torch.zeros(1, 512, device="cuda")
        for t in range(28):
            i, forget, new, o = (sums[t:t + 1] + h @ w_h.T).chunk(4, 1)
            c = forget.sigmoid() * c + i.sigmoid() * new.tanh()
            h = o.sigmoid() * c.tanh()
        return h

    show("LSTM 300->512 as a loop of cells, a token", cells, 28)
    return w_h, tokens @ w_x.T


def jax_scan(w_h, sums):
    try:
        import jax  # pylint: disable=import-outside-toplevel
        import jax.numpy as jnp  # pylint: disable=import-outside-toplevel
    except ImportError:
        print("JAX is not installed")
        return
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    w, x = jnp.asarray(w_h.cpu().numpy()), jnp.asarray(sums.cpu().numpy())

    @jax.jit
    def scan(w, x):
        def step(state, row):
            h, c = state
            i, forget, new, o = jnp.split(row + w @ h, 4)
            c = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None
        return jax.lax.scan(step, (jnp.zeros(512), jnp.zeros(512)), x)[0][0]

    scan(w, x).block_until_ready()
    measured = []
    for _ in range(50 if MODE == "time" else 0):
        start = time.perf_counter()
        scan(w, x).block_until_ready()
        measured.append(time.perf_counter() - start)
    if measured:
        print(f"JAX {jax.__version__}, lax.scan of LSTM 512, a token: least {min(measured) / 28 * 1e6:.2f} us on {jax.devices()[0]}", flush=True)


def main():
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} has no GPU here")
        return
    torch.set_grad_enabled(False)
    if MODE == "time":
        print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    w_h, sums = recurrent()
    show("BERT-base, 128 tokens, bfloat16", bert(12, 768, 12, 128, torch.bfloat16))
    show("BERT-base, 128 tokens, float32", bert(12, 768, 12, 128, torch.float32), kinds=("eager", "graph"))
    torch.backends.cuda.matmul.allow_tf32 = True
    show("BERT-base, 128 tokens, TF32", bert(12, 768, 12, 128, torch.float32), kinds=("eager", "graph"))
    torch.backends.cuda.matmul.allow_tf32 = False
    feed_forward()
    for size in (1024, 4096):
        for dtype in (torch.float32, torch.bfloat16):
            a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
            show(f"matmul {size}, {dtype}", lambda a=a, b=b: a @ b, kinds=("eager",))
    large, row = torch.randn(16384, 1024, device="cuda"), torch.randn(1024, device="cuda")
    f = torch.nn.functional
    for name, function in (("softmax", lambda: large.softmax(-1)), ("layer norm", lambda: f.layer_norm(large, (1024,), row, row)), ("gelu", lambda: f.gelu(large)),
                           ("transpose", lambda: large.T.contiguous()), ("sum of all", large.sum), ("sum over rows", lambda: large.sum(0))):
        show(f"{name}, 16384x1024", function, kinds=("eager", "compiled"))
    if time.monotonic() < END:
        jax_scan(w_h, sums)


main()
