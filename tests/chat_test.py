"""examples/chat: a model that learns, and goes on with text."""

import importlib.util
import os

import python_test
import relayvm as tools

EXAMPLE = os.path.join(tools.ROOT, "examples", "chat", "chat.py")
STEPS, UNTRAINED = 400, 6.4  # nats a token; 600 tokens that are equally likely have 6.4


class Chat(python_test.WithPackages, tools.TestCase):
    def test_learns_and_answers(self):
        spec = importlib.util.spec_from_file_location("chat", EXAMPLE)
        chat = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(chat)
        program = chat.program()
        with open(chat.DOCUMENT, encoding="utf-8") as file:
            text = chat.as_bytes(file.read())
        untrained = chat.new_model()
        model, loss = program["learn"](untrained, text, STEPS)
        self.assertLess(float(loss), UNTRAINED - 1)
        pieces = list(chat.answer(program, model, "A tensor is", limit=12))
        self.assertEqual(len(pieces), 12)
        self.assertEqual(pieces, list(chat.answer(program, model, "A tensor is", limit=12)))
        self.assertNotEqual(pieces, list(chat.answer(program, model, "A tensor is", limit=12, seed=2)))
        self.assertNotEqual(pieces, list(chat.answer(program, untrained, "A tensor is", limit=12)))
        # The consumer stops, and nothing more is computed.
        first = chat.answer(program, model, "A tensor is", limit=10**9)
        self.assertEqual(next(first), pieces[0])
        first.close()
