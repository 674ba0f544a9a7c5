#!/usr/bin/env python3
"""Runs `bazel test` and counts test cases, not targets.

Reads the build events, so that a result of an earlier run is never counted: a target
that did not build is one failure, by name.

  run_bazel_tests.py [--summary FILE] [TARGET...]
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def count_cases(path, targets):
    """(passed, failed names, skipped names) of one JUnit file.

    Adds to `targets` what its properties `runs TARGET` say: whether this CPU ran the code for TARGET, or only compiled it.
    """
    passed, failed, skipped = 0, [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        for entry in case.iter("property"):
            if entry.get("name", "").startswith("runs "):
                targets[entry.get("name").removeprefix("runs ")] = entry.get("value") == "yes"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
            skipped.append(name)
        else:
            passed += 1
    return passed, failed, skipped


def read_events(path):
    """Per target: its last status and the XML files of that attempt's shards."""
    results = collections.defaultdict(dict)
    if not os.path.exists(path):
        return results
    with open(path, encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            identity = event.get("id", {}).get("testResult")
            if identity is None or "testResult" not in event:
                continue
            result = event["testResult"]
            xml = [
                urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                for output in result.get("testActionOutput", [])
                if output["name"] == "test.xml"
            ]
            shard = (identity.get("shard", 1), identity.get("run", 1))
            results[identity["label"]][shard] = (result.get("status"), xml)
    return results


def tally(expected, results):
    """(passed, failed names, skipped names, {target: whether its code ran here})."""
    passed, failures, skipped, targets = 0, [], [], {}
    for label in sorted(expected):
        if label not in results:
            failures.append(f"{label} was not run: it, or what it needs, did not build")
            continue
        for status, files in results[label].values():
            failed_here = 0
            for file in files:
                if not os.path.exists(file):
                    continue
                good, bad, left_out = count_cases(file, targets)
                passed += good
                failed_here += len(bad)
                failures += [f"{label} {name}" for name in bad]
                skipped += [f"{label} {name}" for name in left_out]
            if status not in ("PASSED", "FLAKY") and failed_here == 0:
                failures.append(f"{label} ended as {status}")
    return passed, failures, skipped, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--summary", help="write `PASSED FAILED` here")
    parser.add_argument("targets", nargs="*", default=["//..."])
    options = parser.parse_args()
    events = os.path.join(ROOT, "build", "bazel_events.json")
    os.makedirs(os.path.dirname(events), exist_ok=True)
    if os.path.exists(events):
        os.remove(events)
    query = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--ui_event_filters=-info", f"tests({' + '.join(options.targets)})"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    expected = set(query.stdout.split())
    # A test may read what Bazel does not see, so its result is never one of an earlier run or of a cache.
    command = ["bazel", "test", "--keep_going", "--nocache_test_results",
               f"--config={'terminal' if sys.stderr.isatty() else 'log'}", f"--build_event_json_file={events}", *options.targets]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    passed, failures, skipped, targets = tally(expected, read_events(events))
    if (query.returncode != 0 or code != 0) and not failures:
        failures.append(f"`{' '.join(command)}` ended with exit code {code}")
    for name in skipped:
        print(f"SKIPPED {name}")
    for verdict, runs in (("ran", True), ("did not run, as it is for other CPUs", False)):
        named = sorted(target for target, ran in targets.items() if ran == runs and target != "host")
        if named:
            print(f"code for {', '.join(named)} {verdict}")
    for name in failures:
        print(f"FAILED  {name}")
    print(f"bazel tests: {passed} passed, {len(failures)} failed", flush=True)
    if options.summary:
        with open(options.summary, "w", encoding="utf-8") as file:
            file.write(f"{passed} {len(failures)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
