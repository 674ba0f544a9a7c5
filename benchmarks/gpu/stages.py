"""The stages of measure.py. Each gets the session and the seconds it may take."""

import concurrent.futures
import csv
import glob
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import runs

NO_LIBRARY, LIBRARY, PLAIN = {"RELAYVM_CUBLASLT": "off"}, {"RELAYVM_CUBLASLT": "always"}, {"RELAYVM_CUBLASLT": "off", "RELAYVM_CUDA_GRAPHS": "off"}
MOST_HANGS = 2       # of runs one at a time, before a stage gives up
MOST_DIVIDED = 4     # batches whose cases run one by one
MOST_BAD_CASES = 5   # of a batch, before the others of it are left out
MOST_SHOWN = 40      # lines of the summary; the log has all
# What ncu measures of each kernel: (metric, column of the table, divisor).
METRICS = (("gpu__time_duration.sum", "us", 1e3), ("dram__bytes.sum", "MB of memory", 1e6), ("lts__t_bytes.sum", "MB of L2", 1e6),
           ("sm__warps_active.avg.pct_of_peak_sustained_active", "% of warps", 1), ("launch__registers_per_thread", "registers", 1),
           ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "stalls by memory", 1))
# Units of ncu that are not the one of the column times its divisor.
SCALES = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
MOST_KERNELS = 6     # of a program in the summary; the log has all
MOST_PROFILED = 40   # launches of a program that ncu measures


def one_line(text, most=300):
    return " ".join(str(text).split())[:most]


def named(environment):
    return " ".join(f"{name.removeprefix('RELAYVM_')}={value}" for name, value in environment.items())


def runs_of(programs):
    """Each run of each program, as Session.check takes it."""
    return [{"title": one_line(f"{program['title']} {run['label']}"), "name": program["name"], "tolerance": program.get("tolerance", 1e-4), "run": run}
            for program in programs for run in program["runs"]]


def machine(session, _budget):
    """The GPU, its driver, and the libraries."""
    queries = (("GPU", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,temperature.gpu", "--format=csv,noheader"]),
               ("runtime", [os.path.join(runs.HERE, "relayvm-run"), "--version"]))
    for title, command in queries:
        try:
            code, out, err, _ = session.call(command, 20)
        except OSError as error:
            code, out, err = None, "", str(error)
        session.log("machine", title=title, code=code, out=out, err=err)
        session.say(f"{title}: {one_line(out or err)}")
    session.say(f"cuBLASLt: {session.library_folder or 'NOT FOUND in the folders of CUDA and of Python packages'}")


def smoke(session, budget):
    """The first launches, one at a time, with all that the driver says."""
    end, hangs = time.monotonic() + budget, 0
    for what in runs_of(session.manifest["smoke"]):
        for environment in (PLAIN, NO_LIBRARY, LIBRARY):
            if hangs >= MOST_HANGS or time.monotonic() > end:
                session.say(f"smoke {what['title']}, {named(environment)}: not run")
                continue
            result = session.check(what, min(20, max(2, budget / 4)), **environment)
            hangs += result["state"] == "hangs"
            note(session, what, environment, result)
            said = "; " + result.get("one_by_one", result.get("error", "")) if result["state"] in ("fails", "hangs") else f", same bits as interpreted: {result.get('same_bits')}"
            session.say(f"smoke {what['title']}, {named(environment)}: {result['state']}{said} {result.get('why', '')}".rstrip())
    if hangs < MOST_HANGS:
        product = runs_of(session.manifest["smoke"])[-1]
        _, _, err, _ = session.run(product["name"], product["run"]["arguments"], "--stats", seconds=max(2, min(15, budget / 4)), **LIBRARY)
        used = re.search(r"\d+ products by its library", err)
        library = re.search(r"library of products: (.*)", err)
        session.log("library", err=err)
        session.say(f"cuBLASLt: {used.group(0) if used else 'NO PRODUCT WENT TO THE LIBRARY'}; {library.group(1) if library else one_line(err)}")


def note(session, what, environment, result):
    if result["state"] != "right":
        session.not_right.append((what, environment, result))


def correct(session, budget):
    """All programs, several at a time; of a batch of operators that ends in a fault, the cases one by one."""
    counts, lock = {}, threading.Lock()
    end = time.monotonic() + 0.8 * budget  # the rest is for cases of batches
    networks = session.manifest["programs"]
    # Those that the driver compiles for the longest time come first.
    tasks = [(what, NO_LIBRARY) for what in runs_of(sorted(networks, key=lambda program: program["rank"]))]
    tasks += [(what, NO_LIBRARY) for what in runs_of([*session.manifest["operators"], *session.manifest["random"]])]
    tasks += [(what, LIBRARY) for what in runs_of(networks)]

    def one(task, seconds=60):
        what, environment = task
        hopeless = counts.get("hangs", 0) >= 2 * session.options.jobs and not counts.get("right")
        least = min(10, budget / 4)  # a run that the end of the stage cuts off says nothing
        if time.monotonic() > end - least or hopeless:
            result = {"state": "not run"}
        else:
            result = session.check(what, min(seconds, max(3, budget / 4), max(least, end - time.monotonic())), **environment)
        with lock:
            counts[result["state"]] = counts.get(result["state"], 0) + 1
            for bits in (True, False):
                counts[f"bits {bits}"] = counts.get(f"bits {bits}", 0) + (result.get("same_bits") is bits)
        return result

    with concurrent.futures.ThreadPoolExecutor(session.options.jobs) as pool:
        results = list(zip(tasks, pool.map(one, tasks)))
        states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if not state.startswith("bits"))
        session.say(f"correct: of {len(tasks)} runs {states}; {counts.get('bits True', 0)} have the bits of the interpreter, {counts.get('bits False', 0)} have others "
                    "(products by tensor cores may)")
        end += 0.2 * budget
        bad = [(task, result) for task, result in results if result["state"] not in ("right", "not run")]
        divided = 0
        for (what, environment), result in bad:
            if result["state"] not in ("fails", "hangs") or "cases" not in what["run"]:
                report(session, what, environment, result)
            elif divided < MOST_DIVIDED:
                divided += 1
                divide(session, pool, what, environment, result, one)
            else:
                note(session, what, environment, result)
                say_not_right(session, f"{what['title']}, {named(environment)}: {result['state']}; its cases were not run one by one: {one_line(result.get('why', ''))}")


def report(session, what, environment, result):
    note(session, what, environment, result)
    cases = result.get("cases") or [(f"{what['title']}, {named(environment)}", result)]
    for call, verdict in cases:
        worst = f"; worst {verdict['worst']:.3g}, {verdict['bad']} of {verdict['of']} numbers" if "worst" in verdict else ""
        say_not_right(session, f"{one_line(call, 120)}: {verdict['state']}: {one_line(verdict.get('one_by_one', verdict.get('why', '')))}{worst}")


def say_not_right(session, text):
    session.shown += 1
    if session.shown <= MOST_SHOWN:
        session.say(f"- NOT RIGHT {text}")
    elif session.shown == MOST_SHOWN + 1:
        session.say("- NOT RIGHT: there is more; log.jsonl has all of it")


def divide(session, pool, what, environment, result, one):
    """Runs the cases of a batch, some at a time, until several are found that are not right."""
    begin, cases = 0, []
    for case in what["run"]["cases"]:
        run = {key: value for key, value in what["run"].items() if key not in ("cases", "interpreted")}
        cases.append({"title": one_line(case["call"], 120), "name": what["name"], "run": {**run, "entry": case["entry"], "arguments": run["arguments"][begin:begin + case["inputs"]]}})
        begin += case["inputs"]
    bad, size = 0, session.options.jobs
    session.say(f"- {what['title']}, {named(environment)}: {result['state']}: {one_line(result.get('why', ''))}; its cases one by one:")
    for first in range(0, len(cases), size):
        for case, of_case in zip(cases[first:first + size], pool.map(lambda case: one((case, environment), 10), cases[first:first + size])):
            if of_case["state"] in ("fails", "hangs"):  # values were not compared: the batch has them all as one
                bad += 1
                report(session, case, environment, of_case)
        if bad >= MOST_BAD_CASES:
            break
    if not bad:
        note(session, what, environment, result)
        say_not_right(session, f"{what['title']}: all cases together, and none alone")


def sanitize(session, budget):
    """compute-sanitizer on what is not right, on the first programs, and on programs by rank."""
    tool = find_tool("compute-sanitizer")
    if tool is None:
        return session.say("sanitize: there is no compute-sanitizer")
    end = time.monotonic() + budget
    todo = [("memcheck", what) for what, _, _ in session.not_right[:6]]
    todo += [(kind, what) for kind in ("memcheck", "racecheck", "synccheck", "initcheck") for what in runs_of(session.manifest["smoke"])]
    by_rank = sorted(session.manifest["programs"], key=lambda program: program["rank"])
    todo += [(kind, runs_of([program])[0]) for program in by_rank for kind in ("memcheck", "racecheck")]
    for kind, what in todo:
        if time.monotonic() > end - 3:
            break
        command = [tool, "--tool", kind, "--print-limit", "5", os.path.join(runs.HERE, "relayvm-run"), f"{what['name']}.cuda.rvm", "--device", session.options.device]
        code, out, err, took = session.call([*command, "--entry", what["run"]["entry"], *what["run"]["arguments"]], min(45, end - time.monotonic()), **PLAIN)
        session.log("sanitize", tool=kind, title=what["title"], code=code, out=(out + err)[-6000:])
        found = re.search(r"(ERROR|RACECHECK) SUMMARY: .*", out + err)
        session.say(f"sanitize {kind} {what['title'][:60]}: {found.group(0) if found else 'no summary: ' + one_line(err[-300:])} ({took:.0f} s)")
    return None


def find_tool(name):
    places = [shutil.which(name), *sorted(glob.glob(f"/usr/local/cuda*/bin/{name}"), reverse=True), *glob.glob(f"/opt/nvidia/*/*/{name}")]
    return next((place for place in places if place), None)


def times(session, what, seconds, most, **environment):
    """(least, median) of a run in seconds; the runtime does not count its start."""
    repeat, end = 3, time.monotonic() + most
    while True:
        code, _, err, took = session.run(what["name"], what["run"]["arguments"], "--repeat", str(repeat), seconds=max(1, end - time.monotonic()), **environment)
        found = re.search(r"least ([0-9.]+) ms, median ([0-9.]+) ms", err)
        if code != 0 or found is None:
            raise RuntimeError("hangs" if code is None else one_line(err[-300:]))
        least, median = (float(x) / 1e3 for x in found.groups())
        if repeat * median > seconds / 2 or repeat >= 2000 or time.monotonic() + 2 * took > end:
            return least, median
        repeat = int(min(2000, max(repeat * 2, seconds / max(median, 1e-6))))


def rate(unit, steps, seconds):
    if unit in ("GFLOP", "MiB"):
        return f"{steps / seconds:.4g} {unit}/s"
    return f"{seconds / steps * 1e6:.4g} us per {unit}"


def timing(session, budget):
    """Programs by rank: the fastest run and the median, beside those without graphs and without the library."""
    end, hangs = time.monotonic() + budget, 0
    wrong = {what["title"] for what, _, _ in session.not_right}
    session.say("| Program | Least | Median | Without graphs | Without cuBLASLt | Launches of a run, in graphs, products |")
    session.say("|---|---:|---:|---:|---:|---:|")
    for program in sorted(session.manifest["programs"], key=lambda program: program["rank"]):
        for what in runs_of([program]):
            if what["title"] in wrong or time.monotonic() > end or hangs >= MOST_HANGS:
                session.say(f"| {what['title']} | {'it is not right' if what['title'] in wrong else 'no time'} | | | | |")
                continue
            cells = []
            for environment in ({}, {"RELAYVM_CUDA_GRAPHS": "off"}, NO_LIBRARY):
                try:
                    least, median = times(session, what, session.options.each, min(60, max(2, end - time.monotonic())), **environment)
                except RuntimeError as error:
                    hangs += str(error) == "hangs"
                    cells += [f"fails: {error}"] + [""] * (4 - len(cells) - 1)
                    break
                session.log("time", title=what["title"], unit=program["unit"], steps=program["steps"], environment=environment, least=least, median=median)
                cells += [rate(program["unit"], program["steps"], seconds) for seconds in ([least, median] if not environment else [least])]
            session.say(f"| {what['title']} | {' | '.join(cells)} | {launches(session, what, min(30, max(2, end - time.monotonic()))) if hangs == 0 else ''} |")


def launches(session, what, seconds):
    """Of one of ten runs: launches, the share of them in graphs, and products of the library."""
    _, _, err, _ = session.run(what["name"], what["run"]["arguments"], "--repeat", "10", "--stats", seconds=seconds)
    found = re.search(r"device \S+: (\d+) launches(?: \((\d+) in \d+ graphs\))?(?:, (\d+) products)?", err)
    if found is None:
        return one_line(err[-200:])
    count, in_graphs, products = (int(number or 0) for number in found.groups())
    return f"{count / 10:.0f}, {in_graphs / max(count, 1):.0%}, {products / 10:.0f}"


def begin_warming(session):
    """Lets the compilers of peers run beside the other stages."""
    with open(os.path.join(session.out, "peers_warm.txt"), "w", encoding="utf-8") as file:
        return subprocess.Popen([sys.executable, os.path.join(runs.HERE, "peers.py"), "warm", "200"], cwd=runs.HERE, env=session.environment, start_new_session=True,
                                stdout=file, stderr=subprocess.STDOUT)


def end_warming(process, seconds):
    """Nothing else runs while times are taken."""
    if process is None or process.poll() is not None:
        return
    try:
        process.wait(timeout=max(0.1, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()


def peers(session, budget):
    """The same work by PyTorch, cuDNN and JAX, where they are installed."""
    code, out, err, took = session.call([sys.executable, os.path.join(runs.HERE, "peers.py"), "time", str(int(budget))], budget)
    session.log("peers", code=code, out=out, err=err[-6000:])
    for line in out.splitlines():
        session.say(f"peer: {line}")
    session.say(f"peers: exit code {code} after {took:.0f} s {one_line(err[-300:]) if code else ''}".rstrip())


def profile(session, budget):
    """ncu on the kernels of the programs, by rank: times, bytes, stalls. Caches are as the kernel before left them."""
    tool = find_tool("ncu")
    if tool is None:
        return session.say("ncu: it is not installed")
    end = time.monotonic() + budget
    metrics = ",".join(metric for metric, _, _ in METRICS)
    session.say(f"| Kernel, launches | blocks | {' | '.join(column for _, column, _ in METRICS)} |")
    session.say(f"|---|---:|{'---:|' * len(METRICS)}")
    for program in sorted(session.manifest["programs"], key=lambda program: program["rank"]):
        if time.monotonic() > end - 5:
            break
        run = program["runs"][-1]
        command = [tool, "--clock-control", "none", "--cache-control", "none", "--csv", "--metrics", metrics, "--launch-count", str(MOST_PROFILED),
                   os.path.join(runs.HERE, "relayvm-run"), f"{program['name']}.cuda.rvm"]
        code, out, err, took = session.call([*command, "--device", session.options.device, *run["arguments"]], min(60, end - time.monotonic()), **PLAIN)
        kernels = kernels_of(out)
        session.log("ncu", title=program["title"], code=code, seconds=round(took, 1), kernels=kernels, err=err[-2000:])
        if not kernels:
            session.say(f"| {program['title']}: exit code {code}: {one_line(err[-300:] or out[-300:])} |")
            continue
        total = sum(count * of["us"] for (_, _, count, of) in kernels)
        session.say(f"| **{program['title']}** | | {total:.1f} | | | | | |")
        for name, blocks, count, of in kernels[:MOST_KERNELS]:
            session.say(f"| {name}, {count} | {blocks} | {' | '.join(f'{of[column]:.4g}' for _, column, _ in METRICS)} |")
    return None


def kernels_of(out):
    """[(kernel, blocks, launches, mean of each column)] of the csv that ncu prints, those that take the longest in all first."""
    lines = [line for line in out.splitlines() if line.startswith('"')]
    columns = {metric: (column, divisor) for metric, column, divisor in METRICS}
    launches_of, sums = {}, {}
    for row in csv.DictReader(lines):
        column, divisor = columns.get(row["Metric Name"], (None, 1))
        if column is None:
            continue
        key = (row["Kernel Name"], row["Grid Size"].strip("()").split(",")[0])
        launches_of.setdefault(key, set()).add(row["ID"])
        of = sums.setdefault(key, {column: 0.0 for _, column, _ in METRICS})
        of[column] += number_of(row["Metric Value"]) * SCALES.get(row["Metric Unit"], 1) / divisor
    kernels = [(*key, len(launches_of[key]), {column: total / len(launches_of[key]) for column, total in of.items()}) for key, of in sums.items()]
    return sorted(kernels, key=lambda kernel: -kernel[2] * kernel[3]["us"])


def number_of(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:  # n/a
        return 0.0
