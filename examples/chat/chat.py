"""A tiny model that learns this project's documents, and goes on with what you type: python3 chat.py [STEPS]"""

import codecs
import os
import sys

import numpy
import relayvm

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "language.md")


def program():
    """Training and answers, with the tokenizer: one executable that takes and gives text."""
    with open(os.path.join(HERE, "chat.relay"), encoding="utf-8") as file:
        text = file.read()
    words = relayvm.import_tokenizer(os.path.join(HERE, "tokenizer.json"))
    module = relayvm.Module(text, name=os.path.join(HERE, "chat.relay"), imports={"words": words}, folder=HERE)
    return relayvm.compile(module, entries=["main", "learn"])


def new_model():
    dice = numpy.random.default_rng(0)
    normal = lambda *shape, scale: dice.normal(0, scale, shape).astype("float32")
    return relayvm.adt("Model")(
        normal(600, 96, scale=0.3), normal(96, 96, scale=0.1), numpy.zeros(96, "float32"),
        normal(96, 600, scale=0.1), numpy.zeros(600, "float32"))


def as_bytes(text):
    return numpy.frombuffer(text.encode(), "uint8")


def answer(chat, model, text, limit=40, seed=1, temperature=0.6):
    """The pieces of what follows a text, as they come."""
    characters = codecs.getincrementaldecoder("utf-8")("replace")  # a token may be a part of a character
    with chat.session() as session:
        for piece in session.stream(model, as_bytes(text), limit, seed, temperature):
            yield characters.decode(bytes(piece))


def main(steps):
    chat = program()
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    model, loss = chat["learn"](new_model(), as_bytes(text), steps)
    print(f"{steps} steps: {float(loss):.2f} nats a token")
    seed = 0
    for line in sys.stdin:
        seed += 1
        for piece in answer(chat, model, line.rstrip("\n"), seed=seed):
            print(piece, end="", flush=True)
        print()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
