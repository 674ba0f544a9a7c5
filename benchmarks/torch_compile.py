"""Times torch.compile with the backend relayvm beside eager PyTorch and inductor.

    python benchmarks/torch_compile.py [MODEL...]     # with PyTorch and the packages relayvm and relayvm_runtime

One thread, in processor time, so that other work on the machine disturbs little. Each backend runs in a process of its own,
inductor with an empty cache. `first`: seconds of the first call, with those of compilers that it starts. `ten lengths`: the
same of calls with ten more lengths, mostly compilation where there is any; `graphs`: how many were compiled until then.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

BACKENDS = ("eager", "relayvm", "inductor")
LENGTHS = (7, 12, 33, 20, 5, 48, 64, 9, 17, 28)


def models():
    """name -> (makes the model, makes its argument of a length, the lengths whose calls are timed)"""
    import torch  # pylint: disable=import-outside-toplevel
    from torch import nn  # pylint: disable=import-outside-toplevel

    def encoder():
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        return nn.Sequential(nn.Embedding(100, 256), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(256, 100))

    def convolutions():
        return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1, stride=2),
                             nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    found = {
        "mlp": (lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 64), nn.Softmax(-1)),
                lambda n: torch.randn(n, 256), (5, 64)),
        "convolutions": (convolutions, lambda n: torch.randn(n, 3, 32, 32), (5, 64)),
        "encoder": (encoder, lambda n: torch.randint(0, 100, (1, n)), (5, 64)),
        "lstm": (lambda: nn.LSTM(128, 256, batch_first=True), lambda n: torch.randn(1, n, 128), (5, 64)),
    }
    try:
        import transformers  # pylint: disable=import-outside-toplevel
    except ImportError:
        return found
    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                                     vocab_size=1000)
    found["bert"] = lambda: transformers.BertModel(config), lambda n: torch.randint(0, 1000, (1, n)), (5, 64)
    return found


def seconds():
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def per_call(function):
    """The least microseconds of a call over a few rounds."""
    function()
    began, count = time.process_time(), 0
    while time.process_time() - began < 0.1:
        function()
        count += 1
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            function()
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


def measure(name, backend):
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if backend == "relayvm":
        import relayvm.torch  # pylint: disable=import-outside-toplevel
        if "relayvm" not in torch._dynamo.list_backends():
            torch._dynamo.register_backend(relayvm.torch.backend, name="relayvm")
    make, argument, timed = models()[name]
    model = make().eval()
    call = model if backend == "eager" else torch.compile(model, backend=backend, dynamic=True)
    result = {}
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        x = argument(LENGTHS[0])
        began = seconds()
        call(x)
        result["first"] = seconds() - began
        began = seconds()
        for length in LENGTHS:
            x = argument(length)
            got, wanted = call(x), model(x)
            got, wanted = (value if isinstance(value, torch.Tensor) else value[0] for value in (got, wanted))
            result["error"] = max(result.get("error", 0), (got - wanted).abs().max().item())
        result["lengths"] = seconds() - began
        result["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        for length in timed:
            x = argument(length)
            result[f"us of {length}"] = per_call(lambda: call(x))
    return result


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--one":
        print(json.dumps(measure(*sys.argv[2:])))
        return
    print("| model | backend | first, s | ten lengths, s | graphs | us a call of 5 | of 64 | largest difference |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name in sys.argv[1:] or models():
        for backend in BACKENDS:
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, __file__, "--one", name, backend], stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.PIPE, check=False,
                                      env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"})
            if done.returncode:
                print(f"| {name} | {backend} | failed: {(done.stderr.strip().splitlines() or [''])[-1][:80]} |", flush=True)
                continue
            r = json.loads(done.stdout.splitlines()[-1])
            print(f"| {name} | {backend} | {r['first']:.1f} | {r['lengths']:.1f} | {r['graphs']} | {r['us of 5']:.0f} | "
                  f"{r['us of 64']:.0f} | {r['error']:.0e} |", flush=True)


if __name__ == "__main__":
    main()
