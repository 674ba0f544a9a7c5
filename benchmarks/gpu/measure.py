"""The first minutes of RelayVM on a GPU: what works, what does not and why, how fast it is, and how fast others are.

    python3 measure.py [--seconds 520] [--jobs 6] [--device cuda:0] [--only smoke,correct,...]

Each run is a process of its own with a time limit, and each stage has a share of the time, so that nothing that hangs or crashes
stops the rest. What is known at any moment is in $OUT (else `out` beside this file): log.jsonl, a line for each run with all that it
said, and a summary. The exit code is 1 if any result is not right. README.md explains the stages.
"""

import argparse
import os
import sys
import time
import traceback

import runs
import stages

# (name, stage, share of the time)
STAGES = [("machine", stages.machine, 0.03), ("smoke", stages.smoke, 0.08), ("correct", stages.correct, 0.29), ("sanitize", stages.sanitize, 0.09),
          ("time", stages.timing, 0.29), ("peers", stages.peers, 0.14), ("ncu", stages.profile, 0.08)]
LEAST = 4  # seconds that a stage needs to be begun


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=520, help="the most that all stages take (520)")
    parser.add_argument("--each", type=float, default=0.5, help="seconds of one timing (0.5)")
    parser.add_argument("--jobs", type=int, default=max(2, min(12, os.cpu_count() or 6)), help="processes at once where nothing is timed (as many as there are CPUs, at most 12)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", help="names of stages, with commas between: " + ", ".join(name for name, _, _ in STAGES))
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else [name for name, _, _ in STAGES]
    if unknown := [name for name in options.only if name not in [name for name, _, _ in STAGES]]:
        parser.error(f"no stage is named `{unknown[0]}`")
    return options


def main():
    options = parse()
    session = runs.Session(options)
    session.say(f"RelayVM, commit {session.manifest['commit']}; at most {options.seconds:.0f} s for {', '.join(options.only)}")
    warm = stages.begin_warming(session) if "peers" in options.only else None
    todo = [of for of in STAGES if of[0] in options.only]
    for number, (name, stage, share) in enumerate(todo):
        if session.left() < LEAST:
            session.say(f"{name}: NOT RUN, no time is left")
            continue
        if name == "time":
            stages.end_warming(warm, min(20, session.left() / 10))
        try:
            shares = sum(share for _, _, share in todo[number:])
            stage(session, (session.left() - 1) * share / shares)
        except Exception:  # pylint: disable=broad-exception-caught  # the other stages go on
            session.is_broken = True
            session.log("broken", stage=name, trace=traceback.format_exc())
            session.say(f"{name}: BROKEN: {traceback.format_exc().strip()}")
    stages.end_warming(warm, 0)
    bad = len(session.not_right)
    session.say(f"{'ALL RIGHT' if not bad and not session.is_broken else f'{bad} RUNS ARE NOT RIGHT'}; {time.monotonic() - session.began:.0f} s in all")
    sys.exit(1 if bad or session.is_broken else 0)


if __name__ == "__main__":
    main()
