#!/usr/bin/env python3
"""Says words with the g2p network, by the Python package of the runtime: spell.py g2p.rvm WORD..."""
import pathlib
import re
import sys

import relayvm_runtime

names = re.findall('"([^"]+)"', pathlib.Path(__file__).with_name("phonemes.inc").read_text())
program = relayvm_runtime.load(sys.argv[1])
for word in sys.argv[2:]:
    letters = [ord(c) - ord("a") + 3 if "a" <= c <= "z" else 1 for c in word.lower()]
    print(*(names[number] for number in program(letters)))
