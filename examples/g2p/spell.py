#!/usr/bin/env python3
"""Says words: letters to numbers, one call of the network, numbers to phonemes.

  spell.py [--runtime relayvm-run] [--model g2p.rvm] WORD...

Needs nothing but the standard library, the runtime and the compiled network.
"""

import argparse
import re
import subprocess
import sys

UNKNOWN = 1
FIRST_LETTER = 3  # behind padding, unknown, end
PHONEMES = (
    "<pad> <unk> <s> </s> AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 "
    "B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG "
    "OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH").split()


def letters(word):
    """One number per character; what is no letter a..z is unknown to the network."""
    return [ord(c) - ord("a") + FIRST_LETTER if "a" <= c <= "z" else UNKNOWN for c in word.lower()]


def relay_list(items):
    return "".join(f"Cons({item}, " for item in items) + "Nil" + ")" * len(items)


def read_lists(text):
    """Cons(Cons(1, Cons(2, Nil)), Nil) as [[1, 2]]: each list of numbers ends with a Nil, and so does all."""
    pieces = text.split("Nil")
    return [[int(number) for number in re.findall(r"[0-9]+", piece)] for piece in pieces[:-2]]


def phonemes(numbers):
    return " ".join(PHONEMES[n] for n in numbers)


def say(words, runtime, model):
    """The phonemes of each word, as numbers."""
    argument = relay_list([relay_list(letters(word)) for word in words])
    done = subprocess.run([runtime, model, "--entry", "words", argument], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return read_lists(done.stdout)


def main():
    parser = argparse.ArgumentParser(description="Says words as ARPAbet phonemes.")
    parser.add_argument("--runtime", default="relayvm-run", help="the runtime to call")
    parser.add_argument("--model", default="g2p.rvm", help="the compiled network")
    parser.add_argument("words", nargs="+", metavar="WORD")
    options = parser.parse_args()
    width = max(map(len, options.words))
    for word, numbers in zip(options.words, say(options.words, options.runtime, options.model)):
        print(f"{word:{width}}  {phonemes(numbers)}")


if __name__ == "__main__":
    main()
