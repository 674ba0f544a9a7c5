"""Checks and times what pack.py put beside this file, on this machine's GPU. Prints a table, and keeps it beside this file.

    python3 measure.py [--device cuda:0]

Results are compared with those of the machine that packed first; a program whose results differ is not timed. Needs Python
3.8 and NVIDIA's driver; PyTorch, if it is installed, runs the same products and recurrent networks beside.
"""

import json
import math
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBER = re.compile(r"-?(?:inf|nan|\d+\.?\d*(?:e[-+]?\d+)?)")


def run(model, device, arguments, *flags, **environment):
    command = [os.path.join(HERE, "relayvm-run"), model, "--device", device, *flags, *arguments]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def numbers(text):
    # Suffixes of dtypes are no numbers.
    return [float(x) for x in NUMBER.findall(re.sub(r"(?<=[\d.])(f|i|u)(8|16|32|64)?(_e\w+)?\b", "", text))]


def differs(seen, path, tolerance):
    """What is wrong with a printed value; None if it is right."""
    with open(os.path.join(HERE, path), encoding="utf-8") as file:
        wanted = numbers(file.read())
    given = numbers(seen)
    if len(given) != len(wanted):
        return f"{len(given)} numbers; expected {len(wanted)}"
    scale = max([1.0, *(abs(x) for x in wanted if math.isfinite(x))])
    for index, (a, b) in enumerate(zip(given, wanted)):
        if a != b and not (math.isnan(a) and math.isnan(b)) and not abs(a - b) <= tolerance * scale:
            return f"number {index} is {a}; expected {b}"
    return None


def wrong_with(model, device, entry, run_of, tolerance, **environment):
    done = run(model, device, run_of["arguments"], "--entry", entry, **environment)
    return done.stderr.strip()[-300:] if done.returncode else differs(done.stdout, run_of["expected"], tolerance)


def check_operators(manifest, device):
    """Of every batch; of one that differs each case."""
    wrong, count = [], 0
    for batch in manifest["operators"]:
        model = f"{batch['name']}.cuda.rvm"
        count += len(batch["cases"])
        if wrong_with(model, device, "main", batch, manifest["tolerance"]) is None:
            continue
        before = len(wrong)
        for case in batch["cases"]:
            why = wrong_with(model, device, case["entry"], case, manifest["tolerance"])
            if why is not None:
                wrong.append(f"{case['call']}: {why}")
        if len(wrong) == before:
            wrong.append(f"{batch['name']}: all cases together differ, none alone")
    return count, wrong


def least_seconds(model, device, arguments, seconds, **environment):
    """The fastest of the runs of about so many seconds; the runtime does not count its start."""
    repeat = 3
    while True:
        began = time.perf_counter()
        done = run(model, device, arguments, "--repeat", str(repeat), **environment)
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
        least = float(re.search(r"least ([0-9.]+) ms", done.stderr).group(1)) / 1e3
        if took > seconds or repeat >= 1000:
            return least
        repeat = min(1000, max(repeat * 2, int(seconds / max(least, 1e-6))))


def launches(model, device, arguments):
    """Of one of ten runs, the share of them in graphs, and what cuBLASLt did beside."""
    done = run(model, device, arguments, "--repeat", "10", "--stats")
    found = re.search(r"device \S+: (\d+) launches(?: \((\d+) in \d+ graphs\))?(?:, (\d+) products)?", done.stderr)
    if found is None:
        raise RuntimeError(done.stderr.strip()[-300:])
    count, in_graphs, products = (int(number or 0) for number in found.groups())
    return f"{count / 10:.0f}, {in_graphs / max(count, 1):.0%}, {products / 10:.0f}"


def rate(unit, steps, seconds):
    if unit in ("GFLOP", "MiB"):
        return f"{steps / seconds:.4g} {unit}/s"
    return f"{seconds / steps * 1e6:.4g} us per {unit}"


def table(manifest, device):
    lines = ["| Program | | On the GPU | Without graphs | Without cuBLASLt | Launches of a run, in graphs, products | On this machine's CPU, one thread |",
             "|---|---|---:|---:|---:|---:|---:|"]
    for program in manifest["programs"]:
        models = [f"{program['name']}.cuda.rvm"] + [f"{program['name']}.host.rvm"] * program["has_host"]
        for run_of in program["runs"]:
            why = [wrong_with(models[0], device, "main", run_of, manifest["tolerance"], RELAYVM_CUBLASLT=wanted) for wanted in ("off", "always")]
            why = why[0] or (why[1] and f"with cuBLASLt: {why[1]}")
            if why is not None:
                lines.append(f"| {program['title']} | {run_of['label']} | differs: {' '.join(why.split())} | | | | |")
                continue
            def cell(model, place, run_of=run_of, program=program, **environment):
                seconds = least_seconds(model, place, run_of["arguments"], manifest["seconds"], **environment)
                return rate(program["unit"], program["steps"], seconds)

            cells = [cell(models[0], device), cell(models[0], device, RELAYVM_CUDA_GRAPHS="off"),
                     cell(models[0], device, RELAYVM_CUBLASLT="off"),
                     launches(models[0], device, run_of["arguments"]), cell(models[1], "host") if len(models) > 1 else ""]
            lines.append(f"| {program['title']} | {run_of['label']} | {' | '.join(cells)} |")
    return lines


def pytorch():
    """The same on PyTorch, if it is there and has a GPU."""
    try:
        import torch
    except ImportError:
        return ["PyTorch is not installed."]
    if not torch.cuda.is_available():
        return ["PyTorch has no GPU here."]

    def microseconds(function, times=50):
        best = math.inf
        with torch.inference_mode():
            for _ in range(times):
                torch.cuda.synchronize()
                began = time.perf_counter()
                function()
                torch.cuda.synchronize()
                best = min(best, time.perf_counter() - began)
        return best * 1e6

    torch.backends.cuda.matmul.allow_tf32 = False
    lines = [f"PyTorch {torch.__version__}, eager, inputs on the GPU, float32 without TF32:", "", "| | |", "|---|---:|"]
    for size in (1024, 4096):
        a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
        lines.append(f"| matmul {size} | {2e-3 * size ** 3 / microseconds(lambda a=a, b=b: a @ b):.4g} GFLOP/s |")
    tokens = torch.randn(28, 1, 300, device="cuda")
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        module = kind(300, 512).cuda().eval()
        lines.append(f"| {kind.__name__} 300->512, 28 tokens (cuDNN) | {microseconds(lambda m=module: m(tokens)) / 28:.4g} us per token |")
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda().eval()
    for length in (8, 16, 32, 64, 128, 256, 384):
        x = torch.randn(1, length, 256, device="cuda")
        lines.append(f"| BERT, 4 layers of 256, length {length} | {microseconds(lambda x=x: encoder(x)):.4g} us per run |")
    return lines


def main():
    device = sys.argv[2] if sys.argv[1:2] == ["--device"] else "cuda:0"
    with open(os.path.join(HERE, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    began = time.perf_counter()
    count, wrong = check_operators(manifest, device)
    lines = [f"Commit {manifest['commit']}, device {device}.", "", f"Operators: {count} cases, {len(wrong)} differ."]
    lines += [f"- {' '.join(line.split())}" for line in wrong]
    lines += ["", *table(manifest, device), "", *pytorch(), "", f"{time.perf_counter() - began:.0f} s in all."]
    text = "\n".join(lines) + "\n"
    with open(os.path.join(HERE, "result.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    sys.exit(1 if wrong or "| differs: " in text else 0)


if __name__ == "__main__":
    main()
