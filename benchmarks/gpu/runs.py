"""Runs of programs as processes with time limits, what they print compared with what it should be, and a log of all of it."""

import glob
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBER = re.compile(r"-?(?:inf|nan|\d+\.?\d*(?:e[-+]?\d+)?)")
SUFFIX = re.compile(r"(?<=[\d.nf])(?:bf16|f8e4m3fn|f16|f32|f64|f|[iu](?:8|16|32|64))\b")
# One launch at a time, so that the error of a fault names its kernel's place in the program.
ONE_BY_ONE = {"CUDA_LAUNCH_BLOCKING": "1", "RELAYVM_CUDA_GRAPHS": "off"}


class Session:
    """What all stages share: the manifest, the device, the time that is left, and the two files of results."""

    def __init__(self, options):
        self.options, self.began, self.lock, self.lines = options, time.monotonic(), threading.Lock(), []
        self.out = os.environ.get("OUT") or os.path.join(HERE, "out")
        os.makedirs(self.out, exist_ok=True)
        with open(os.path.join(HERE, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.not_right = []  # (what ran, result)
        self.shown = 0  # lines of the summary about them
        self.is_broken = False
        self.library_folder = None  # that has cuBLASLt
        self.environment = self._environment()

    def _environment(self):
        """Finds libraries that the loader does not, and keeps what the driver compiles."""
        patterns = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/*-linux-gnu", *(f"{path}/nvidia/*/lib" for path in [*sys.path, *site_folders()] if path)]
        found = [os.path.dirname(path) for pattern in patterns for path in sorted(glob.glob(f"{pattern}/libcublasLt.so.1[1-9]"), reverse=True)]
        self.library_folder = found[0] if found else None
        path = [folder for folder in (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), self.library_folder) if folder]
        if not starts_alone():
            path.append(os.path.join(HERE, "lib"))
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(path), "CUDA_CACHE_PATH": os.environ.get("CUDA_CACHE_PATH", os.path.join(self.out, "cache")),
                "CUDA_CACHE_MAXSIZE": str(4 << 30), "CUDA_MODULE_LOADING": "LAZY"}

    def left(self):
        return self.options.seconds - (time.monotonic() - self.began)

    def log(self, kind, **fields):
        with self.lock, open(os.path.join(self.out, "log.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"at": round(time.monotonic() - self.began, 2), "kind": kind, **fields}) + "\n")

    def say(self, text):
        """Prints a line, and writes the summary anew."""
        with self.lock:
            self.lines.append(text)
            print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)
            path = os.path.join(self.out, "summary.md")
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write("\n".join(self.lines) + "\n")
            os.replace(path + ".new", path)

    def call(self, command, seconds, **environment):
        """(exit code, or None if it did not end in time; stdout; stderr; seconds)."""
        began = time.monotonic()
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                              env={**self.environment, **environment}) as process:
            try:
                out, err = process.communicate(timeout=max(1.0, min(seconds, self.left() + 2)))
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                code = None
        return code, out, err, time.monotonic() - began

    def run(self, name, arguments, *flags, seconds=60, **environment):
        return self.call([os.path.join(HERE, "relayvm-run"), f"{name}.cuda.rvm", "--device", self.options.device, *flags, *arguments], seconds, **environment)

    def check(self, what, seconds=60, **environment):
        """Runs and compares: a dictionary with `state` (right, wrong, other bits, fails, hangs) and why."""
        run = what["run"]
        code, out, err, took = self.run(what["name"], run["arguments"], "--entry", run["entry"], seconds=seconds, **environment)
        if code is None:
            result = {"state": "hangs", "why": f"it did not end within {took:.0f} s", "error": err[-6000:]}
        elif code != 0:
            result = {"state": "fails", "code": code, "why": err.strip(), "error": err[-6000:]}
            if "is lost" in err and "CUDA_LAUNCH_BLOCKING" not in environment:
                again = self.run(what["name"], run["arguments"], "--entry", run["entry"], seconds=seconds, **{**environment, **ONE_BY_ONE})
                result["one_by_one"] = again[2][-6000:] if again[0] != 0 else "no fault"
        else:
            result = judge(out, run, what.get("tolerance", 1e-4), uses_library=environment.get("RELAYVM_CUBLASLT") != "off")
        self.log("check", title=what["title"], model=what["name"], entry=run["entry"], environment=environment, seconds=round(took, 2), **result)
        return result


def site_folders():
    import site  # pylint: disable=import-outside-toplevel
    return [*getattr(site, "getsitepackages", list)(), *([site.getusersitepackages()] if hasattr(site, "getusersitepackages") else [])]


def starts_alone():
    """Whether this system has the libraries that the runtime needs."""
    try:
        return subprocess.run([os.path.join(HERE, "relayvm-run"), "--help"], capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def text_of(path):
    with open(os.path.join(HERE, path), encoding="utf-8") as file:
        return file.read()


def numbers(text):
    return [float(x) for x in NUMBER.findall(SUFFIX.sub("", text))]


def fields_of(text):
    """The texts of a tuple's fields."""
    fields, depth, begin = [], 0, 1
    text = text.strip()
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 1 and char == "," or depth == 0 and at == len(text) - 1:
            fields.append(text[begin:at].strip())
            begin = at + 1
    return [field for field in fields if field]


def compare(seen, wanted, tolerance):
    """How many numbers differ by more than the tolerance, relative to the largest one, and the first of them."""
    a, b = numbers(seen), numbers(wanted)
    if len(a) != len(b):
        return {"bad": max(len(a), len(b)), "of": len(b), "why": f"{len(a)} numbers; expected {len(b)}"}
    scale = max([1.0, *(abs(x) for x in b if math.isfinite(x))])
    bad, worst, why = 0, 0.0, None
    for i, (x, y) in enumerate(zip(a, b)):
        if x == y or math.isnan(x) and math.isnan(y):
            continue
        error = abs(x - y) / scale
        worst = error if error > worst or math.isnan(error) else worst
        if not error <= tolerance:
            bad += 1
            why = why or f"number {i} is {x}; expected {y}"
    return {"bad": bad, "of": len(a), "worst": worst, **({"why": why} if why else {})}


def judge_text(seen, expected, interpreted, tolerance, is_exact):
    """`is_exact`: the interpreter's bits are what the device must give."""
    found = compare(seen, expected, tolerance)
    same = None if interpreted is None else seen.strip() == interpreted.strip()
    state = "wrong" if found["bad"] else "other bits" if is_exact and same is False else "right"
    if state == "other bits":
        difference = compare(seen, interpreted, 0)
        found["why"] = f"{difference['bad']} of {difference['of']} numbers have other bits than on the interpreter of PTX: {difference.get('why')}"
    return {"state": state, "same_bits": same, **found}


def judge(out, run, tolerance, uses_library):
    """The verdict on what a run printed; that on a batch has `cases`, the verdicts on those that are not right."""
    expected, interpreted = text_of(run["expected"]), text_of(run["interpreted"]) if "interpreted" in run else None
    is_exact = not run["multiplies_matrices"] and not uses_library
    if "cases" not in run:
        return judge_text(out, expected, interpreted, tolerance, is_exact)
    seen, wanted = fields_of(out), fields_of(expected)
    bits = [None] * len(wanted) if interpreted is None else fields_of(interpreted)
    if not len(seen) == len(wanted) == len(bits) == len(run["cases"]):
        return {"state": "wrong", "bad": 1, "why": f"{len(seen)} results; expected {len(wanted)}", "cases": []}
    verdicts = [(case["call"], judge_text(a, b, c, case["tolerance"], is_exact or not uses_library and not case["is_half"]))
                for case, a, b, c in zip(run["cases"], seen, wanted, bits)]
    wrong = [(call, verdict) for call, verdict in verdicts if verdict["state"] != "right"]
    same = [verdict["same_bits"] for _, verdict in verdicts]
    return {"state": "right" if not wrong else wrong[0][1]["state"], "same_bits": None if None in same else all(same), "cases": wrong}
