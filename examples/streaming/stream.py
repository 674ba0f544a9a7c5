"""Tokens of a running program, one by one: python3 stream.py"""

import os

import relayvm

program = relayvm.compile(os.path.join(os.path.dirname(__file__), "stream.relay"), entries=["main", "dialogue"])
with program.session() as session:
    print("greedy:", end="")
    for token in session.stream(4, 5):
        print("", token, end="", flush=True)
    print()
    said = []
    answer = session["dialogue"](lambda token: said.append(str(token)))
    answer(2)
    said.append("|")
    answer(5)
    print("a dialogue:", *said)
