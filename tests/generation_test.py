"""The Prelude's functions for generation (docs/generation.md) beside references in Python and numpy, at each level."""

import collections
import os
import tempfile

import in_process
import numpy
import relayvm

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

PROGRAM = os.path.join(relayvm.ROOT, "tests", "generation", "models.relay")


def log_softmax(logits):
    logits = numpy.asarray(logits, "float64")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def model_of(table):
    """The model of models.relay: the logits behind a text."""
    def behind(text):
        last, before = ([0, 0] + text)[-1], ([0, 0] + text)[-2]
        return table[last] + numpy.float32(0.5) * table[before]
    return behind


def greedy(behind, logits, stops, limit):
    text = []
    while len(text) < limit:
        token = int(logits.argmax())
        if token in stops:
            break
        text.append(token)
        logits = behind(text)
    return text


def beam_search(behind, logits, width, stops, limit, penalty, early):
    live, ended = [(0.0, [])], []
    for made in range(limit):
        candidates = []
        for row, (score, text) in enumerate(live):
            logs = log_softmax(behind(text) if text else logits) + score
            candidates += [(logs[token], row, token) for token in range(len(logs))]
        candidates.sort(key=lambda c: (-c[0], c[1], c[2]))
        candidates = candidates[:width * max(2, 1 + len(stops))]
        grown = []
        for rank, (score, row, token) in enumerate(candidates):
            if len(grown) == width:
                break
            if token not in stops:
                grown.append((score, live[row][1] + [token]))
            elif rank < width:
                ended.append((score / (made + 1) ** penalty, live[row][1]))
                ended = sorted(ended, key=lambda e: -e[0])[:width]
        live = grown
        if len(ended) == width and (early or ended[-1][0] >= candidates[0][0] / (made + 1) ** penalty):
            return ended
    ended += [(score / max(limit, 1) ** penalty, text) for score, text in live]
    return sorted(ended, key=lambda e: -e[0])[:width]


def ctc_greedy(logits, blank):
    best = [int(token) for token in logits.argmax(axis=1)]
    return [token for i, token in enumerate(best) if token != blank and (i == 0 or best[i - 1] != token)]


def ctc_beam(logits, blank, width):
    """Prefix search: the log-probabilities of each text that ends with a blank, and that does not."""
    add, nothing = numpy.logaddexp, -numpy.inf
    texts = {(): (0.0, nothing)}
    for frame in log_softmax(logits):
        new = collections.defaultdict(lambda: [nothing, nothing])
        for text, (blanks, others) in texts.items():
            for token, log in enumerate(frame):
                if token == blank:
                    new[text][0] = add(new[text][0], add(blanks, others) + log)
                    continue
                repeats = text[-1:] == (token,)
                if repeats:
                    new[text][1] = add(new[text][1], others + log)
                grown = new[text + (token,)]
                grown[1] = add(grown[1], (blanks if repeats else add(blanks, others)) + log)
        texts = dict(sorted(new.items(), key=lambda item: -add(*item[1]))[:width])
    found = [(add(*logs), list(text)) for text, logs in texts.items()]
    return sorted([item for item in found if item[0] > nothing], key=lambda item: -item[0])


def transducer(table, frames, blank, most):
    def predict(state, token):
        state = (state * 3 + token) % 7
        return state, table[token] + numpy.float32(state) * numpy.float32(0.125)

    state, output = predict(0, blank)
    text = []
    for frame in frames:
        for _ in range(most):
            token = int((frame + output * frame).argmax())
            if token == blank:
                break
            text.append(token)
            state, output = predict(state, token)
    return text


def timed(behind, logits, prompt, first, stop, most, limit):
    """The likeliest tokens that the rule of Whisper's timestamps allows."""
    begins = [i for i, token in enumerate(prompt) if stop <= token < first]
    has_times = not begins or prompt[begins[-1]] != first - 1
    said, text = prompt[begins[-1] + 1:] if begins else list(prompt), []
    while len(text) < limit:
        allowed = numpy.array(logits, "float64")
        if has_times:
            times = [token for token in said if token >= first]
            was_time, was_time_before = (len(said) < n or said[-n] >= first for n in (1, 2))
            allowed[first - 1] = -numpy.inf
            if not said:
                allowed[:first] = allowed[most + 1:] = -numpy.inf
            elif was_time:
                allowed[slice(first, None) if was_time_before else slice(0, stop)] = -numpy.inf
            if times:
                allowed[first:times[-1] + (0 if was_time and not was_time_before else 1)] = -numpy.inf
            if numpy.exp(allowed[first:]).sum() > numpy.exp(allowed[:first].max()):
                allowed[:first] = -numpy.inf
        token = int(allowed.argmax())
        if token == stop:
            break
        said.append(token)
        text.append(token)
        logits = behind(text)
    return text


def kept(logits, k, p, min_p):
    """The tokens that may be drawn, and their probabilities."""
    order = numpy.argsort(-logits, kind="stable")
    order = order[:k] if k > 0 else order
    probs = numpy.exp(log_softmax(logits[order]))
    before = numpy.concatenate([[0], numpy.cumsum(probs)[:-1]])
    keep = (before < p) & (probs >= min_p * probs[0])
    keep[0] = True
    return {int(token): prob for token, prob in zip(order[keep], probs[keep] / probs[keep].sum())}


DECODER = """
import "decoder.onnx" as @decoder;
def @step(%past: Tensor[(1, ?, 8), float32], %token: int32) -> (Tensor[(1, ?, 8), float32], Tensor[(11), float32]) {
  let (%logits, %present) = @decoder(reshape(cast(%token, dtype="int64"), newshape=[1, 1]), %past);
  (%present, reshape(%logits, newshape=[11]))
}
def @read(%prompt: List[int32]) {
  let %none = (zeros(shape=[1, 0, 8], dtype="float32"), zeros(shape=[11], dtype="float32"));
  @foldl(fn (%state: (Tensor[(1, ?, 8), float32], Tensor[(11), float32]), %token: int32) {
    @step(%state.0, %token)
  }, %none, %prompt)
}
def @greedy_text(%prompt: List[int32], %limit: int32) -> List[int32] {
  let (%past, %logits) = @read(%prompt);
  @greedy(@step, %past, %logits, [0], %limit)
}
def @best_texts(%prompt: List[int32], %limit: int32) -> List[(float32, List[int32])] {
  let (%past, %logits) = @read(%prompt);
  @beam_search(@step, %past, %logits, 3, [0], %limit, 1f, False)
}
"""


def text_of(value):
    return [int(token) for token in value]


def texts_of(value):
    return [(float(score), text_of(text)) for score, text in value]


class Generation(relayvm.TestCase):
    SETTINGS = ((1, 0, 1, 0), (0.7, 5, 1, 0), (1.3, 0, 0.8, 0), (1, 0, 1, 0.2), (2, 6, 0.9, 0.3))  # of @sample

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = {}
        for level in (0, 2, 3):
            path = os.path.join(cls.folder.name, f"models{level}.rvm")
            cls.models[level] = in_process.load(relayvm.compile_file(PROGRAM, path, level), allow_native=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, check, cases):
        for level, model in self.models.items():
            for seed in range(cases):
                with self.subTest(level=level, seed=seed):
                    check(model, numpy.random.default_rng(seed))

    def random_model(self, rng, least=4):
        size = int(rng.integers(least, 12))
        table, logits = rng.normal(0, 2, (size, size)), rng.normal(0, 2, size)
        return size, table.astype("float32"), logits.astype("float32")

    def assert_texts(self, given, expected):
        """Texts of equal scores may come in any order."""
        self.assertEqual(len(given), len(expected))
        for (score, text), (expected_score, expected_text) in zip(given, expected):
            self.assertAlmostEqual(score, expected_score, delta=1e-4 * max(1, abs(expected_score)))
            equal = [other for s, other in expected if abs(s - expected_score) < 1e-4]
            if len(equal) == 1:
                self.assertEqual(text, expected_text)

    def test_greedy(self):
        def check(model, rng):
            size, table, logits = self.random_model(rng)
            stops, limit = [int(s) for s in rng.integers(0, size, rng.integers(0, 3))], int(rng.integers(0, 12))
            expected = greedy(model_of(table), logits, stops, limit)
            self.assertEqual(text_of(model["greedy_text"](table, logits, stops, limit)), expected)
            sampled = model["sampled_text"](table, logits, stops, limit, 5, 0.0, 3, 0.5, 0.1)
            self.assertEqual(text_of(sampled), expected)

        self.check(check, 30)

    def test_filters(self):
        def check(model, rng):
            size, _, logits = self.random_model(rng)
            inf = numpy.float32(numpy.inf)
            for k in (0, 1, 2, size, size + 3):
                expected = numpy.where(logits < numpy.sort(logits)[-min(k, size)], -inf, logits) if k else logits
                numpy.testing.assert_array_equal(model["filtered_k"](logits, k), expected)
            for p in (0.2, 0.7, 1.0):
                tokens = kept(logits, 0, p, 0)
                expected = [x if token in tokens else -inf for token, x in enumerate(logits)]
                numpy.testing.assert_array_equal(model["filtered_p"](logits, p), expected)
            for p in (0.0, 0.1, 0.6):
                tokens = kept(logits, 0, 2.0, p)
                expected = [x if token in tokens else -inf for token, x in enumerate(logits)]
                numpy.testing.assert_array_equal(model["filtered_min"](logits, p), expected)
            prompt, more = rng.integers(0, size, 3).astype("int32"), int(rng.integers(0, size))
            seen = {*map(int, prompt), more}
            expected = [(x * 1.5 if x < 0 else x / 1.5) if token in seen else x for token, x in enumerate(logits)]
            numpy.testing.assert_allclose(model["penalised"](logits, prompt, more, 1.5), expected, rtol=1e-6)

        self.check(check, 10)

    def test_frequencies(self):
        """Chi-square of 4000 draws: less than 1 in 1000 by chance, were the seeds not fixed."""
        limits = {1: 10.9, 2: 13.9, 3: 16.3, 4: 18.5, 5: 20.6, 6: 22.5, 7: 24.4}
        logits = numpy.array([1.0, 0.0, 2.0, -1.0, 1.5, 0.5, -2.0, 1.0], "float32")
        for level, model in self.models.items():
            for temperature, k, p, min_p in self.SETTINGS:
                with self.subTest(level=level, k=k, p=p, min_p=min_p):
                    drawn = collections.Counter(text_of(model["draws"](11, logits, 4000, temperature, k, p, min_p)))
                    expected = kept(logits / numpy.float32(temperature), k, p, min_p)
                    self.assertLessEqual(set(drawn), set(expected))
                    chi = sum((drawn[token] - 4000 * prob) ** 2 / (4000 * prob) for token, prob in expected.items())
                    self.assertLess(chi, limits[len(expected) - 1])

    def test_seeds(self):
        logits = numpy.linspace(0, 1, 8, dtype="float32")
        texts = [text_of(model["draws"](seed, logits, 20, 1, 0, 1, 0))
                 for seed in (1, 2) for model in self.models.values()]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])
        self.assertNotEqual(texts[0], texts[3])

    def test_beam_search(self):
        def check(model, rng):
            size, table, logits = self.random_model(rng, 7)
            for penalty in (0.0, 0.6, 1.0, 2.0):
                width, limit, early = int(rng.integers(1, 4)), int(rng.integers(0, 8)), bool(rng.integers(2))
                stops = [int(s) for s in rng.choice(size, rng.integers(0, 3), replace=False)]
                search = (stops, limit, penalty, early)
                given = model["best_texts"](table, logits, width, *search)
                self.assert_texts(texts_of(given), beam_search(model_of(table), logits, width, *search))
                given = model["best_texts_of_rows"](table, logits, *search)
                self.assert_texts(texts_of(given), beam_search(model_of(table), logits, 3, *search))

        self.check(check, 25)

    def test_beam_search_in_few_tokens(self):
        """Fewer tokens than hypotheses: rows of no probability are no results."""
        logits = numpy.array([0.0, 1.0], "float32")
        for model in self.models.values():
            found = texts_of(model["best_texts"](numpy.zeros((2, 2), "float32"), logits, 5, [], 1, 1.0, False))
            self.assertEqual([text for _, text in found], [[1], [0]])

    def test_widths_that_are_none(self):
        table, logits = numpy.zeros((4, 4), "float32"), numpy.arange(4, dtype="float32")
        for model in self.models.values():
            for width in (0, -3):
                self.assertEqual(texts_of(model["best_texts"](table, logits, width, [0], 3, 1.0, False)), [])
                self.assertEqual(texts_of(model["ctc_best"](table, 0, width)), [])
                self.assertEqual(text_of(model["speculated"](table, table, logits, width, [], 3)), [3, 0, 0])

    def test_speculation(self):
        def check(model, rng):
            size, table, logits = self.random_model(rng)
            for noise in (0, 0.5, 3):
                draft = table + rng.normal(0, noise, table.shape).astype("float32")
                ahead, limit, stops = int(rng.integers(0, 6)), int(rng.integers(0, 20)), [int(rng.integers(0, size))]
                given = model["speculated"](table, draft, logits, ahead, stops, limit)
                self.assertEqual(text_of(given), greedy(model_of(table), logits, stops, limit))

        self.check(check, 30)

    def test_ctc(self):
        def check(model, rng):
            frames, size = int(rng.integers(0, 10)), int(rng.integers(2, 9))
            logits = rng.normal(0, 3, (frames, size)).astype("float32")
            blank, width = int(rng.integers(0, size)), int(rng.integers(1, 9))
            self.assertEqual(text_of(model["ctc_text"](logits, blank)), ctc_greedy(logits, blank))
            self.assert_texts(texts_of(model["ctc_best"](logits, blank, width)), ctc_beam(logits, blank, width))

        self.check(check, 40)

    def test_transducer(self):
        def check(model, rng):
            size, table, _ = self.random_model(rng)
            frames = rng.normal(0, 2, (int(rng.integers(0, 9)), size)).astype("float32")
            blank, most = int(rng.integers(0, size)), int(rng.integers(0, 4))
            given = model["transduced"](table, frames, blank, most)
            self.assertEqual(text_of(given), transducer(table, frames, blank, most))

        self.check(check, 30)

    def test_timestamps(self):
        """Behind prompts that begin texts or do not, and within texts with words and times."""
        def check(model, rng):
            size, table, logits = self.random_model(rng, 8)
            stop = int(rng.integers(1, size - 5))
            first = stop + int(rng.integers(2, 4))
            most = int(rng.integers(first, size + 2))
            for specials in ((), (stop, first - 1), (stop,), (first - 1, stop)):
                for said in ((), (first,), (first, 0), (first, 0, first + 1), (first, 0, first + 1, first + 1), (0,)):
                    prompt = [*specials, *said]
                    given = model["timed_text"](table, logits, numpy.array(prompt, "int32"), first, stop, most, 12)
                    expected = timed(model_of(table), logits, prompt, first, stop, most, 12)
                    self.assertEqual(text_of(given), expected)

        self.check(check, 10)

    def test_imported_decoder(self):
        """A step that is an ONNX model, whose cache grows by a row a token."""
        if onnx is None:
            self.skipTest("needs onnx")
        rng = numpy.random.default_rng(3)
        words, out = rng.normal(0, 1.5, (11, 8)).astype("float32"), rng.normal(0, 1.5, (8, 11)).astype("float32")
        nodes = [helper.make_node("Gather", ["words", "ids"], ["x"]),
                 helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
                 helper.make_node("Transpose", ["present"], ["keys"], perm=[0, 2, 1]),
                 helper.make_node("MatMul", ["x", "keys"], ["scores"]),
                 helper.make_node("Softmax", ["scores"], ["shares"]),
                 helper.make_node("MatMul", ["shares", "present"], ["y"]),
                 helper.make_node("MatMul", ["y", "out"], ["logits"])]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "decoder", [info("ids", TensorProto.INT64, (1, 1)), info("past", TensorProto.FLOAT, (1, "n", 8))],
            [info("logits", TensorProto.FLOAT, (1, 1, 11)), info("present", TensorProto.FLOAT, (1, "m", 8))],
            [numpy_helper.from_array(words, "words"), numpy_helper.from_array(out, "out")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

        def behind(text):
            rows = words[text]
            shares = numpy.exp(log_softmax(rows[-1] @ rows.T))
            return (shares @ rows @ out).astype("float32")

        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, os.path.join(folder, "decoder.onnx"))
            source = os.path.join(folder, "p.relay")
            with open(source, "w", encoding="utf-8") as file:
                file.write(DECODER)
            program = in_process.load(relayvm.compile_file(source, source + ".rvm"), allow_native=True)
            for prompt in ([1], [5, 2, 7], [3, 3, 3, 3, 9, 10]):
                logits, after = behind(prompt), lambda text, prompt=prompt: behind(prompt + text)
                for limit in (0, 1, 70):
                    self.assertEqual(text_of(program["greedy_text"](prompt, limit)), greedy(after, logits, [0], limit))
                found = texts_of(program["best_texts"](prompt, 12))
                self.assert_texts(found, beam_search(after, logits, 3, [0], 12, 1.0, False))

    def test_only_what_is_used(self):
        """A file has the functions that its program uses, and no others of the Prelude."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "p.relay")
            with open(source, "w", encoding="utf-8") as file:
                file.write("def @main(%logits: Tensor[(n, v), float32]) { @ctc_greedy(%logits, 0) }\n")
            shown = relayvm.must(relayvm.COMPILER, "inspect", relayvm.compile_file(source, source + ".rvm"), "--code")
            self.assertIn("ctc", shown)
            for name in ("beam", "sample", "generate", "speculate", "transducer"):
                self.assertNotIn(name, shown)
