"""Times a Llama with random weights, token by token and on prompts, beside ONNX Runtime, PyTorch and, in each form of weights,
llama.cpp; logits are compared first, and the runs of all alternate.

RELAYVM_LANGUAGE: layers, width, inner width, heads, heads of keys and vocabulary instead of those of 125 million weights.
RELAYVM_CONTEXTS: lengths of contexts instead of these, `8 512`. RELAYVM_THREADS: the number of threads, 1 unless given.
"""

import itertools
import os
import re
import sys
import time

import numpy as np

import relayvm
from language import network

CONTEXTS = (8, 512, 4000)
PROMPTS = (8, 512)
ROUNDS, TOKENS = 3, 16
TOLERANCE = 1e-3  # of the largest logit
FORMS = ("F32", "BF16", "Q8_0", "Q4_0")
TOLERANCE_OF_LLAMA = 0.25  # its caches are of float16, and it rounds rows to bytes for products with blocks

PROGRAM = """import "MODEL" as @model;
def @logits(%tokens: Tensor[(t), int32]) -> Tensor[(VOCABULARY), float32] { (@model.read(@model.start(), %tokens)).1 }
// Tokens behind a context of the same keys and values in each layer.
def @tokens(%context: Tensor[(n, HEADS, SIZE), DTYPE], %count: int32) -> List[int32] {
  let (%cache, %logits) = @model.step((CACHE), 5);
  @greedy(@model.step, %cache, %logits, [], %count)
}
def @beams(%tokens: Tensor[(t), int32], %count: int32) -> List[(float32, List[int32])] {
  let (%cache, %logits) = @model.read(@model.start(), %tokens);
  @beam_search(@model.step, %cache, %logits, 4, [], %count, 1f, False)
}
"""
READ = """def @main(%x: Tensor[(n), float32]) -> float32 { sum(%x) }
"""


def threads():
    return int(os.environ.get("RELAYVM_THREADS", "1"))


def random_tokens(count, vocabulary):
    return np.random.default_rng(count).integers(0, vocabulary, count)


def context_of(sizes, length):
    dice = np.random.default_rng(length)
    return dice.standard_normal((length, sizes.key_heads, sizes.head), "f4")


def seconds_of(name, executable, *arguments):
    """Seconds of the fastest run of an executable, which the runtime times."""
    done = relayvm.run(relayvm.RUNTIME, executable, "--threads", threads(), *arguments, timeout=3600)
    if done.returncode != 0:
        raise relayvm.ToolError(f"{name}: {done.stderr}")
    return float(re.search(r"least ([0-9.]+) ms", done.stdout + done.stderr).group(1)) / 1e3


class Ours:
    """The model in RelayVM, with weights of a form."""

    def __init__(self, folder, sizes, weights, form):
        self.name, self.sizes, self.prefix = f"RelayVM {form}", sizes, f"{folder}/{form}"
        self.cache_dtype = "float32" if form == "F32" else "float16"  # what the importer chooses
        os.makedirs(self.prefix)
        if weights is None:
            network.write_gguf(f"{self.prefix}/model.gguf", sizes, form)
        else:
            network.write_folder(f"{self.prefix}/model", sizes, weights, form)
        text = PROGRAM.replace("MODEL", "model" if weights is not None else "model.gguf")
        for name, value in (("VOCABULARY", sizes.vocabulary), ("HEADS", sizes.key_heads), ("SIZE", sizes.head), ("DTYPE", self.cache_dtype),
                            ("CACHE", ", ".join(["%context"] * 2 * sizes.layers))):
            text = text.replace(name, str(value))
        with open(f"{self.prefix}/main.relay", "w", encoding="utf-8") as file:
            file.write(text)
        self.executable = f"{self.prefix}/main.rvm"
        entries = [option for entry in ("logits", "tokens", "beams") for option in ("--entry", entry)]
        relayvm.must(relayvm.COMPILER, "compile", f"{self.prefix}/main.relay", "-o", self.executable, *entries)
        self.together = f"{self.prefix}/together.rvm"
        relayvm.must(relayvm.COMPILER, "compile", f"{self.prefix}/main.relay", "-o", self.together, "--entry", "beams", "--batch")

    def run(self, entry, *arguments, repeat=2):
        return seconds_of(self.name, self.executable, "--entry", entry, "--repeat", repeat, "--out", f"{self.prefix}/out.npy", *arguments)

    def prompt(self, length):
        np.save(f"{self.prefix}/tokens.npy", random_tokens(length, self.sizes.vocabulary).astype("int32"))
        return self.run("logits", f"@{self.prefix}/tokens.npy")

    def logits(self, length):
        self.prompt(length)
        return np.load(f"{self.prefix}/out.npy")

    def token(self, length):
        """The difference of runs of several tokens and of one: the first step copies the context."""
        np.save(f"{self.prefix}/context.npy", context_of(self.sizes, length).astype(self.cache_dtype))
        seconds = [self.run_list(count) for count in (1, 1 + TOKENS)]
        return (seconds[1] - seconds[0]) / TOKENS

    def run_list(self, count, entry="tokens", values="context", executable=None):
        return seconds_of(self.name, executable or self.executable, "--entry", entry, "--repeat", 3, f"@{self.prefix}/{values}.npy", count)

    def beams(self, length):
        """A step of four hypotheses behind a prompt: one by one, and together."""
        np.save(f"{self.prefix}/tokens.npy", random_tokens(length, self.sizes.vocabulary).astype("int32"))
        steps = []
        for executable in (self.executable, self.together):
            seconds = [self.run_list(count, "beams", "tokens", executable) for count in (1, 1 + TOKENS)]
            steps.append((seconds[1] - seconds[0]) / TOKENS)
        return steps


class Exported:
    """The model in ONNX Runtime; with `room`, its caches are of that many tokens and are written in place."""

    def __init__(self, folder, sizes, weights, room):
        import onnx  # pylint: disable=import-outside-toplevel
        import onnxruntime  # pylint: disable=import-outside-toplevel

        self.onnxruntime, self.sizes, self.room = onnxruntime, sizes, room
        self.name = f"ONNX Runtime {onnxruntime.__version__}, {'GQA' if room else 'exported'}"
        path = f"{folder}/{'fixed' if room else 'growing'}.onnx"
        onnx.save(network.Builder(sizes, weights, room).make(), path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads(), 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def caches(self, length):
        """Caches with the context, as values of the runtime, by their names."""
        context = context_of(self.sizes, length).transpose(1, 0, 2)[None]
        if self.room:
            context = np.pad(context, [(0, 0), (0, 0), (0, self.room - length), (0, 0)])
        # Each has memory of its own, which the values refer to.
        self.arrays = {f"{kind}_{i}": context.copy("C") for i in range(self.sizes.layers) for kind in ("key", "value")}
        return {name: self.onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in self.arrays.items()}

    def step(self, tokens, caches, length):
        """The logits behind tokens; caches become the next ones."""
        binding = self.session.io_binding()
        binding.bind_cpu_input("tokens", tokens[None].astype("int64"))
        if self.room:
            binding.bind_cpu_input("last", np.array([length + len(tokens) - 1], "int32"))
            binding.bind_cpu_input("total", np.array(length + len(tokens), "int32"))
        for name, value in caches.items():
            binding.bind_ortvalue_input(f"past_{name}", value)
        binding.bind_output("logits")
        for name, value in caches.items():
            if self.room:
                binding.bind_ortvalue_output(name, value)
            else:
                binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        logits, *rest = binding.get_outputs()
        if not self.room:
            caches.update(zip(list(caches), rest))
        return logits.numpy()[0, 0]

    def logits(self, length):
        return self.step(random_tokens(length, self.sizes.vocabulary), self.caches(0), 0)

    def prompt(self, length):
        seconds = []
        for _ in range(2):
            caches = self.caches(0)
            began = time.perf_counter()
            self.step(random_tokens(length, self.sizes.vocabulary), caches, 0)
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    def token(self, length):
        caches, token, seconds = self.caches(length), 5, []
        for i in range(TOKENS + 1):
            began = time.perf_counter()
            token = int(self.step(np.array([token]), caches, length + i).argmax())
            seconds.append(time.perf_counter() - began)
        return sum(seconds[1:]) / TOKENS


class Eager:
    """The model in PyTorch, with caches that are joined at each step."""

    def __init__(self, sizes, weights):
        import torch  # pylint: disable=import-outside-toplevel

        if not hasattr(torch, "nn"):  # the folder of tests that has its name
            raise ImportError("no PyTorch", name="torch")
        torch.set_num_threads(threads())
        self.torch, self.sizes, self.name = torch, sizes, f"PyTorch {torch.__version__}"
        self.weights = {name: torch.from_numpy(array) for name, array in weights.items()}
        self.frequencies = torch.from_numpy((network.BASE ** (-np.arange(0, sizes.head, 2) / sizes.head)).astype("f4"))

    def norm(self, x, name):
        return self.torch.nn.functional.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], network.EPSILON)

    def dense(self, x, name):
        return self.torch.nn.functional.linear(x, self.weights[f"{name}.weight"])

    def rotated(self, x, angles):
        a, b = x.chunk(2, -1)
        return self.torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)

    def step(self, tokens, caches, length):
        torch, sizes = self.torch, self.sizes
        x = self.weights["model.embed_tokens.weight"][torch.from_numpy(tokens)]
        angles = torch.arange(length, length + len(tokens))[:, None] * self.frequencies
        for i in range(sizes.layers):
            prefix = f"model.layers.{i}."
            a = self.norm(x, f"{prefix}input_layernorm")
            q, k, v = (self.dense(a, f"{prefix}self_attn.{name}_proj").view(len(tokens), -1, sizes.head).transpose(0, 1)
                       for name in "qkv")
            k = torch.cat((caches[f"key_{i}"], self.rotated(k, angles)), 1)
            v = torch.cat((caches[f"value_{i}"], v), 1)
            caches[f"key_{i}"], caches[f"value_{i}"] = k, v
            y = torch.nn.functional.scaled_dot_product_attention(self.rotated(q, angles)[None], k[None], v[None],
                                                                 is_causal=len(tokens) > 1, enable_gqa=True)[0]
            x = x + self.dense(y.transpose(0, 1).reshape(len(tokens), -1), f"{prefix}self_attn.o_proj")
            a = self.norm(x, f"{prefix}post_attention_layernorm")
            inner = torch.nn.functional.silu(self.dense(a, f"{prefix}mlp.gate_proj")) * self.dense(a, f"{prefix}mlp.up_proj")
            x = x + self.dense(inner, f"{prefix}mlp.down_proj")
        return self.dense(self.norm(x[-1:], "model.norm"), "lm_head")[0].numpy()

    def caches(self, length):
        context = self.torch.from_numpy(context_of(self.sizes, length).transpose(1, 0, 2).copy())
        return {f"{kind}_{i}": context for i in range(self.sizes.layers) for kind in ("key", "value")}

    def logits(self, length):
        with self.torch.inference_mode():
            return self.step(random_tokens(length, self.sizes.vocabulary), self.caches(0), 0)

    def prompt(self, length):
        with self.torch.inference_mode():
            return Exported.prompt(self, length)

    def token(self, length):
        with self.torch.inference_mode():
            return Exported.token(self, length)


class LlamaCpp:
    """The model in llama.cpp, from the GGUF file of a form, with its caches of float16."""

    def __init__(self, path, form, sizes, contexts):
        import llama_cpp  # pylint: disable=import-outside-toplevel

        self.llama_cpp, self.sizes, self.name = llama_cpp, sizes, f"llama.cpp {llama_cpp.__version__} {form}"
        # A model for prompts, and one for each context, which it keeps.
        self.models = {length: llama_cpp.Llama(path, n_ctx=max(length, *PROMPTS) + TOKENS + 2, n_batch=512, n_threads=threads(),
                                               n_threads_batch=threads(), verbose=False) for length in (0, *contexts)}

    def keep(self, model, length):
        """Forgets all but the first tokens."""
        memory = self.llama_cpp.llama_get_memory(model.ctx)
        self.llama_cpp.llama_memory_seq_rm(memory, 0, length, -1)
        model.n_tokens = length

    def logits(self, length):
        self.prompt(length)
        found = self.llama_cpp.llama_get_logits_ith(self.models[0].ctx, -1)
        return np.ctypeslib.as_array(found, (self.sizes.vocabulary,)).copy()

    def prompt(self, length):
        tokens, seconds = random_tokens(length, self.sizes.vocabulary).tolist(), []
        for _ in range(2):
            self.keep(self.models[0], 0)
            began = time.perf_counter()
            self.models[0].eval(tokens)
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    def token(self, length):
        model, seconds = self.models[length], []
        if model.n_tokens == 0:
            model.eval(random_tokens(length, self.sizes.vocabulary).tolist())
        self.keep(model, length)
        for _ in range(TOKENS + 1):
            began = time.perf_counter()
            model.eval([5])
            seconds.append(time.perf_counter() - began)
        return sum(seconds[1:]) / TOKENS


def make_peers(folder, sizes, weights, contexts):
    """The peers that are installed."""
    room = max(*contexts, *PROMPTS) + TOKENS + 2
    peers = []
    for make in (lambda: Exported(folder, sizes, weights, 0), lambda: Exported(folder, sizes, weights, room),
                 lambda: Eager(sizes, weights)):
        try:
            peers.append(make())
        except ImportError as error:
            print(f"{error.name} is not installed: language models are not compared with it", file=sys.stderr)
    return peers


def make_llamas(folder, sizes, weights, contexts):
    """llama.cpp for each form, if it is installed."""
    try:
        import llama_cpp  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        print("llama_cpp is not installed: language models are not compared with it", file=sys.stderr)
        return []
    llamas = []
    for form in FORMS:
        path = f"{folder}/{form}/model.gguf"
        if not os.path.exists(path):
            network.write_gguf(path, sizes, form, weights)
        llamas.append(LlamaCpp(path, form, sizes, contexts))
    return llamas


def difference(ours, theirs, limit):
    """How far the logits are apart, of the largest."""
    expected = theirs.logits(PROMPTS[0])
    error = np.abs(ours.logits(PROMPTS[0]) - expected).max() / np.abs(expected).max()
    if not error < limit:
        raise relayvm.ToolError(f"logits of {ours.name} differ from those of {theirs.name} by {error:.1e} of the largest")
    return error


class Reader:
    """A sum that reads memory."""
    COUNT = 100_000_000  # of floats

    def __init__(self, folder):
        with open(f"{folder}/read.relay", "w", encoding="utf-8") as file:
            file.write(READ)
        self.executable = relayvm.compile_file(f"{folder}/read.relay", f"{folder}/read.rvm", 3, [])
        self.data = f"{folder}/x.npy"
        np.save(self.data, np.ones(self.COUNT, "f4"))

    def bandwidth(self):
        """Bytes a second."""
        return 4 * self.COUNT / seconds_of("reading memory", self.executable, "--repeat", 5, f"@{self.data}")


def table(folder):
    sizes = network.Sizes(*(int(size) for size in os.environ.get("RELAYVM_LANGUAGE", "").split()))
    contexts = [int(length) for length in os.environ.get("RELAYVM_CONTEXTS", "").split()] or CONTEXTS
    weights = sizes.weights()
    peers = make_peers(folder, sizes, weights, contexts)
    ours = [Ours(folder, sizes, weights if form in ("F32", "BF16") else None, form) for form in FORMS]
    llamas = make_llamas(folder, sizes, weights, contexts)
    models = ours + peers + llamas
    errors = [difference(ours[0], peer, TOLERANCE) for peer in peers]
    errors += [difference(model, llama, TOLERANCE_OF_LLAMA) for model, llama in zip(ours, llamas)]
    rows = [("token", length) for length in contexts] + [("prompt", length) for length in PROMPTS]
    least = {(kind, length, model.name): float("inf") for kind, length in rows for model in models}
    beams = {(length, model.name): [float("inf")] * 2 for length in PROMPTS for model in ours}
    bandwidth, reader = 0, Reader(folder)
    for number in range(ROUNDS):
        print(f"language: round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
        bandwidth = max(bandwidth, reader.bandwidth())
        for kind, length in rows:
            for model in models:
                row = (kind, length, model.name)
                least[row] = min(least[row], getattr(model, kind)(length))
        for length, model in itertools.product(PROMPTS, ours):
            beams[length, model.name] = [min(pair) for pair in zip(beams[length, model.name], model.beams(length))]
    names = [model.name for model in models]
    text = (f"A Llama of {sizes.count() / 1e6:.0f} million weights ({sizes.layers} layers, width {sizes.width}, {sizes.heads} heads, "
            f"{sizes.key_heads} of keys, {sizes.vocabulary} tokens), {threads()} thread{'s' if threads() > 1 else ''}; tokens per second. "
            "ONNX Runtime and PyTorch have weights of float32; ratios are F32 beside them, and each form beside llama.cpp.\n\n"
            f"| | {' | '.join(names)} | F32 | forms |\n|---|{'---:|' * len(names)}---|---|\n")
    for kind, length in rows:
        count = 1 if kind == "token" else length
        speeds = [count / least[kind, length, name] for name in names]
        last = len(ours) + len(peers)
        ratios = ", ".join(f"{speeds[0] / speed:.2f}" for speed in speeds[len(ours):last])
        of_forms = ", ".join(f"{own / speed:.2f}" for own, speed in zip(speeds, speeds[last:]))
        shown = f"token behind {length}" if kind == "token" else f"prompt of {length}"
        text += f"| {shown} | {' | '.join(f'{speed:.4g}' for speed in speeds)} | {ratios} | {of_forms} |\n"
    text += f"\nA step of 4 beams behind {' and '.join(map(str, PROMPTS))} tokens, in milliseconds:"
    for kind, how in enumerate(("one by one", "together (`--batch`)")):
        steps = [[beams[length, model.name][kind] * 1e3 for length in PROMPTS] for model in ours]
        text += f"\n{how}: " + "; ".join(f"{form} {' and '.join(f'{step:.3g}' for step in times)} ({times[-1] / times[0]:.2f})"
                                        for form, times in zip(FORMS, steps))
    text += ".\n"
    weight_bytes = 4 * (sizes.count() - sizes.vocabulary * sizes.width)  # a row of the table of embeddings is read
    limit = bandwidth / weight_bytes
    share = 1 / least["token", contexts[0], names[0]] / limit
    differences = ", ".join(f"{error:.0e}" for error in errors)
    return text + (f"\nA sum reads {bandwidth / 1e9:.1f} GB/s: {limit:.4g} tokens of F32 a second at most, of which a token behind "
                   f"{contexts[0]} has {share:.2f}. Logits differ by {differences or 'nothing: no peer'} of the largest.\n")
