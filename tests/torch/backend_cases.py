"""Cases of `torch.compile(backend="relayvm")` and `relayvm.torch.Module` beside eager PyTorch, which they need.

    RELAYVM_TORCH_PYTHON=/path/to/python ./run test --long         # also where PyTorch is in .venv
    python tests/torch/backend_cases.py [CASE...]                  # with the packages relayvm and relayvm_runtime
"""

import contextlib
import copy
import io
import pathlib
import pickle
import re
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import numpy
import torch
from torch import nn

import relayvm
import relayvm.torch
from relayvm.torch import FallbackWarning, _calls, _settings

try:
    import transformers
except ImportError:
    transformers = None

TOLERANCE = 1e-5


def difference(a, b):
    """The largest difference between tensors of two structures, infinite if these or the shapes differ."""
    a, b = (torch.utils._pytree.tree_flatten(value) for value in (a, b))
    if a[1] != b[1]:
        return float("inf")
    found = 0.0
    for x, y in zip(a[0], b[0]):
        if not isinstance(x, torch.Tensor):
            found = max(found, 0.0 if type(x) is type(y) and x == y else float("inf"))
        elif x.shape != y.shape or x.dtype != y.dtype:
            return float("inf")
        elif x.numel():
            found = max(found, (x.detach().double() - y.detach().double()).abs().max().item())
    return found


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        _settings._warned.clear()
        self.programs = []
        plain = _calls._Program.__init__

        def counted(program, *args):
            self.programs.append(program)
            plain(program, *args)

        patched = unittest.mock.patch.object(_calls._Program, "__init__", counted)
        patched.start()
        self.addCleanup(patched.stop)

    def graphs(self):
        return torch._dynamo.utils.counters["stats"]["unique_graphs"]

    def compiled(self, model, strict=True, **options):
        return torch.compile(model, backend="relayvm", options={"fallback": not strict}, **options)

    def close(self, a, b, tolerance=TOLERANCE):
        self.assertLessEqual(difference(a, b), tolerance)

    def check(self, model, *calls, graphs=None, **options):
        """Compares calls, tuples of arguments or dicts, with eager ones, without gradients."""
        model = model.eval() if isinstance(model, nn.Module) else model
        compiled = self.compiled(model, **options)
        with torch.no_grad():
            for call in calls:
                args, kwargs = ((), call) if isinstance(call, dict) else (call, {})
                self.close(compiled(*copy.deepcopy(args), **kwargs), model(*copy.deepcopy(args), **kwargs))
        self.assertGreater(len(self.programs), 0)
        if graphs is not None:
            self.assertEqual(self.graphs(), graphs)

    @contextlib.contextmanager
    def warned(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            messages = []
            yield messages
        messages += [str(warning.message) for warning in seen if warning.category is FallbackWarning]


class Models(Case):
    def test_mlp(self):
        model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Softmax(-1))
        self.check(model, *((torch.randn(n, 6),) for n in (3, 5, 9, 300)), dynamic=True, graphs=1)
        self.assertEqual(len(self.programs), 1)

    def test_extents_become_dynamic_by_themselves(self):
        model = nn.Linear(6, 16)
        self.check(model, *((torch.randn(n, 6),) for n in (3, 5, 9, 7)), graphs=2)

    def test_convolutions(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                              nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
        nn.init.uniform_(model[1].running_var, 0.5, 1.5)
        self.check(model, *((torch.randn(n, 3, 16, 16),) for n in (2, 4, 3)), dynamic=True, graphs=1)

    def test_memory_formats(self):
        model = nn.Conv2d(3, 4, 3).eval()
        image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        self.check(model, (image,), (torch.randn(2, 3, 8, 16)[..., ::2],), (torch.randn(8, 8, 3, 2).permute(3, 2, 1, 0),))
        with torch.no_grad():
            self.assertEqual(self.compiled(model)(image).stride(), model(image).stride())

    def test_transformer(self):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        model = nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 20))
        self.check(model, *((torch.randint(0, 20, (2, n)),) for n in (7, 12, 33)), dynamic=True, graphs=1)

    def test_fast_paths_of_attention(self):
        for norm_first, activation in ((True, "gelu"), (False, "relu")):
            layer = nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True, norm_first=norm_first)
            for mask in ({}, {"src_key_padding_mask": torch.tensor([[False] * 4 + [True], [False] * 5])},
                         {"src_mask": nn.Transformer.generate_square_subsequent_mask(5)}):
                with self.subTest(norm_first=norm_first, mask=list(mask)):
                    torch._dynamo.reset()
                    self.check(layer, {"src": torch.randn(2, 5, 16), **mask})
        attention, x = nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(2, 5, 16)
        for options in ({"need_weights": False}, {"average_attn_weights": False}, {}):
            with self.subTest(options):
                torch._dynamo.reset()
                self.check(attention, {"query": x, "key": x, "value": x, **options})

    def test_lstm_stays_a_loop(self):
        model = nn.LSTM(4, 8, num_layers=2, bidirectional=True, batch_first=True)
        with torch._dynamo.config.patch(allow_rnn=True):
            self.check(model, *((torch.randn(2, n, 4),) for n in (5, 9, 3, 200)), dynamic=True, graphs=1)
        self.assertEqual(len(self.programs), 1)

    def test_recurrent_layers(self):
        for kind in nn.GRU, nn.RNN:
            with self.subTest(kind.__name__), torch._dynamo.config.patch(allow_rnn=True):
                torch._dynamo.reset()
                self.check(kind(4, 8), (torch.randn(5, 2, 4),))

    def test_lstm_is_eager_by_default(self):
        model = nn.LSTM(4, 8).eval()
        with torch.no_grad():
            x = torch.randn(5, 2, 4)
            self.close(self.compiled(model)(x), model(x))

    def test_control_flow(self):
        def branch(x):
            return torch.cond(x.sum() > 0, lambda x: x.double() * 2, lambda x: x.double() - 1, (x,))

        self.check(branch, (torch.ones(3),), (-torch.ones(3),))
        self.assertEqual(len(self.programs), 1)

    def test_loops_over_values_break_the_graph(self):
        def loop(x):
            while x.sum() < 100:
                x = x * 2 + 1
            return x

        self.check(loop, (torch.ones(4),))


@unittest.skipIf(transformers is None, "transformers is not installed")
class Transformers(Case):
    def run_model(self, model):
        tokens = [torch.randint(0, 100, (1, n)) for n in (7, 12, 33)]
        self.check(model, *({"input_ids": x, "attention_mask": torch.ones_like(x), "return_dict": False} for x in tokens),
                   dynamic=True, graphs=1)
        self.assertEqual(len(self.programs), 1)

    def small(self, name, **options):
        return getattr(transformers, name)(vocab_size=100, **options)

    def test_bert(self):
        self.run_model(transformers.BertModel(self.small(
            "BertConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)))

    def test_distilbert(self):
        self.run_model(transformers.DistilBertForSequenceClassification(self.small(
            "DistilBertConfig", dim=32, n_layers=2, n_heads=2, hidden_dim=64)))

    def test_gpt2(self):
        self.run_model(transformers.GPT2LMHeadModel(self.small(
            "GPT2Config", n_embd=32, n_layer=2, n_head=2, n_positions=128, bos_token_id=1, eos_token_id=2, use_cache=False)))

    def test_roberta(self):
        self.run_model(transformers.RobertaModel(self.small(
            "RobertaConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=64)))

    def test_qwen2(self):
        self.run_model(transformers.Qwen2ForCausalLM(self.small(
            "Qwen2Config", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            intermediate_size=64, use_cache=False)))

    def test_t5_encoder(self):
        self.run_model(transformers.T5EncoderModel(self.small("T5Config", d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)))

    def llama(self):
        return transformers.LlamaForCausalLM(self.small(
            "LlamaConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            intermediate_size=64, use_cache=False)).eval()

    def test_llama(self):
        self.run_model(self.llama())

    def test_static_cache(self):
        model = self.llama()
        compiled = self.compiled(model, dynamic=True)
        caches = [transformers.StaticCache(config=model.config, max_cache_len=24) for _ in range(2)]
        with torch.no_grad():
            for step in range(6):
                tokens = torch.randint(0, 100, (1, 4 if step == 0 else 1))
                begin = 0 if step == 0 else 3 + step
                positions = torch.arange(begin, begin + tokens.shape[1])
                outputs = [function(input_ids=tokens, past_key_values=cache, position_ids=positions[None], use_cache=True).logits
                           for function, cache in zip((compiled, model), caches)]
                self.close(*outputs)
                self.close(*([cache.layers[0].keys, cache.layers[1].values] for cache in caches))
        self.assertGreater(caches[0].layers[1].values.abs().sum().item(), 0)


class Values(Case):
    def test_kinds_of_outputs(self):
        def kinds(x, k):
            return x.sum(), x.shape[0], None, x.mean() > 0, (x * k, {"a": x.long(), "b": 3}), [x.shape[0] * 2]

        self.check(kinds, (torch.randn(5), 2), (torch.randn(6), 3), dynamic=True)

    def test_numbers_as_inputs(self):
        def scaled(x, rows, factor):
            return x.view(rows, -1) * factor

        self.check(scaled, (torch.randn(12), 3, 0.5), (torch.randn(20), 4, 1.5), (torch.randn(30), 5, 2.5), dynamic=True)

    def test_inputs_that_are_written(self):
        def write(x):
            view = x.view(x.shape[0], 2, -1).transpose(0, 1)
            x.add_(1)
            return view * 2, x, x[1:], view, x.unsqueeze(0)

        compiled = self.compiled(write, dynamic=True)
        for rows in (4, 6):
            a = torch.randn(rows, 8)
            b = a.clone()
            got, wanted = compiled(a), write(b)
            self.close((got, a), (wanted, b), 1e-6)
            self.assertIs(got[1], a)
            self.assertEqual([t.stride() for t in got], [t.stride() for t in wanted])
            self.assertEqual([t.data_ptr() - a.data_ptr() for t in got[1:]], [t.data_ptr() - b.data_ptr() for t in wanted[1:]])

    def test_results_have_their_own_memory(self):
        def copies(x):
            return x.clone(), x * 1, x + 1, x + 1

        for count in (3, 3000):
            x = torch.zeros(count)
            got = self.compiled(copies)(x)
            x.add_(5)
            got[2].add_(7)
            self.assertEqual([t.max().item() for t in got], [0, 0, 8, 1])

    def test_results_may_be_written(self):
        def constants(x):
            return x * torch.tensor([1., 2., 3.]), torch.ones(2000), torch.arange(x.shape[0])

        compiled = self.compiled(constants)
        for _ in range(2):
            got = compiled(torch.ones(3))
            self.close(got, constants(torch.ones(3)))
            for tensor in got:
                tensor.add_(1)

    def test_writes_to_slices(self):
        def write(x):
            x = x.clone()
            x[1:] = 0
            x[:, 0] += 2
            x[x > 1] = -1
            return x, x.chunk(3), torch.cat([x[1:], x[:-1]])

        self.check(write, (torch.randn(6, 4),), (torch.randn(9, 5),), dynamic=True)

    def test_results_of_any_extent(self):
        def found(x, count):
            k = count.item()
            torch._check(k <= x.shape[0])
            return torch.nonzero(x > 0), x[x > 0], torch.zeros(k) + x.sum(), k

        with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            self.check(found, (torch.randn(7), torch.tensor(3)), (torch.randn(9), torch.tensor(5)), dynamic=True)

    def test_views_of_results(self):
        def views(x):
            y = x * 2
            return y, y[1:], y.t()

        got = self.compiled(views)(torch.randn(4, 5))
        got[0].zero_()
        self.assertEqual(got[1].abs().sum().item() + got[2].abs().sum().item(), 0)

    def test_buffers_that_are_written(self):
        model = nn.BatchNorm1d(4)
        other = copy.deepcopy(model)
        compiled = self.compiled(model, dynamic=True)
        with torch.no_grad():
            for n in (3, 5, 6):
                x = torch.randn(n, 4)
                self.close(compiled(x), other(x))
        self.close(model.state_dict(), other.state_dict())
        self.assertEqual(model.num_batches_tracked.item(), 3)

    def test_caches(self):
        class Cache(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("keys", torch.zeros(1, 2, 16, 8))
                self.project = nn.Linear(8, 8)

            def forward(self, x, position):
                self.keys.index_copy_(2, position, self.project(x))
                return (self.keys * 2).sum(-1)

        model = Cache().eval()
        other, compiled = copy.deepcopy(model), self.compiled(model)
        with torch.no_grad():
            for step in range(5):
                args = torch.randn(1, 2, 1, 8), torch.tensor([step])
                self.close((compiled(*args), model.keys), (other(*args), other.keys))
        self.assertEqual(len(self.programs), 1)

    def test_dtypes(self):
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool):
            with self.subTest(dtype):
                x = torch.arange(1200).remainder(7).to(dtype)
                self.check(lambda x: (torch.cat([x, x]), x.flip(0)), (x,))  # noqa: B023

    def test_autocast(self):
        model = nn.Linear(16, 16)
        x = torch.randn(2, 16)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            got, wanted = self.compiled(model)(x), model(x)
        self.assertEqual(got.dtype, torch.bfloat16)
        self.close(got, wanted, 0.02)

    def test_no_elements(self):
        self.check(lambda x: (x * 2, x.sum(0)), (torch.ones(0, 5),), (torch.ones(3, 5),))


class Weights(Case):
    def setUp(self):
        super().setUp()
        self.model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
        self.x = torch.randn(3, 32)
        self.call = self.compiled(self.model)

    def same(self):
        with torch.no_grad():
            self.close(self.call(self.x), self.model(self.x))

    def test_changes_are_seen(self):
        self.same()
        changes = {"in place": lambda weight: weight.mul_(2), "through data": lambda weight: weight.data.add_(1),
                   "other data": lambda weight: setattr(weight, "data", torch.randn(32, 32))}
        for name, change in changes.items():
            with self.subTest(name), torch.no_grad():
                change(self.model[0].weight)
                self.same()
        self.model.load_state_dict(copy.deepcopy(self.model).state_dict())
        self.same()
        self.model[0].weight = nn.Parameter(torch.randn(32, 32))
        self.same()
        self.assertEqual(len(self.programs), 2)  # one with constants, one with arguments for all changes

    def test_modules_may_share_a_graph(self):
        layers = [nn.Linear(8, 8) for _ in range(4)]
        compiled = [self.compiled(layer) for layer in layers]
        x = torch.randn(2, 8)
        with torch.no_grad():
            for _ in range(2):
                for call, layer in zip(compiled, layers):
                    self.close(call(x), layer(x))
        self.assertEqual(len(self.programs), 2)

    def test_without_constants(self):
        call = torch.compile(self.model, backend="relayvm", options={"freeze": False, "fallback": False})
        with torch.no_grad():
            self.close(call(self.x), self.model(self.x))
            self.model[0].weight.mul_(2)
            self.close(call(self.x), self.model(self.x))
        self.assertEqual(len(self.programs), 1)

    def test_weights_are_freed_with_the_model(self):
        self.same()
        import gc
        import weakref
        weight = weakref.ref(self.model[0].weight)
        self.model = self.call = None
        torch._dynamo.reset()
        gc.collect()
        self.assertIsNone(weight())


class Fallback(Case):
    def eigenvalues(self, x):
        y = x * 2
        return torch.linalg.eigvals(y).real

    def test_one_warning_names_the_operator_and_its_place(self):
        x = torch.randn(4, 4)
        with self.warned() as messages:
            for _ in range(2):
                torch._dynamo.reset()
                self.close(torch.compile(self.eigenvalues, backend="relayvm")(x), self.eigenvalues(x))
        self.assertEqual(len(messages), 1)
        for part in ("the operator aten.linalg_eig", "backend_cases.py", "in eigenvalues: return torch.linalg.eigvals(y).real",
                     "RELAYVM_TORCH=strict"):
            self.assertIn(part, messages[0])
        self.assertEqual(self.programs, [])

    def test_strict_raises(self):
        with self.assertRaisesRegex(Exception, "aten.linalg_eig.default: eigenvalues may be complex"):
            self.compiled(self.eigenvalues)(torch.randn(4, 4))
        torch._dynamo.reset()
        with unittest.mock.patch.dict("os.environ", RELAYVM_TORCH="strict"), self.assertRaisesRegex(Exception, "aten.linalg_eig"):
            torch.compile(self.eigenvalues, backend="relayvm")(torch.randn(4, 4))

    def test_unknown_options_and_modes(self):
        for wrong, text in (({"options": {"thread": 3}}, "did you mean 'threads'"), ({"mode": "max-autotune"}, "saw mode='max-autotune'")):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, text):
                torch.compile(lambda x: x + 1, backend="relayvm", **wrong)(torch.ones(2))

    def test_dtypes_that_relay_has_not(self):
        x = torch.ones(2, dtype=torch.complex64)
        with self.warned() as messages:
            self.close(self.compiled(lambda x: (x * 2).real, strict=False)(x), (x * 2).real)
        self.assertEqual(len(messages), 1)
        self.assertIn("complex64", messages[0])

    def test_other_devices(self):
        x = torch.ones(2, device="meta")
        with self.warned() as messages:
            self.assertEqual(self.compiled(lambda x: x * 2, strict=False)(x).device.type, "meta")
        self.assertIn("an input: its tensor is on the device meta", messages[0])

    def test_errors_of_runs_have_the_place(self):
        def solved(a, b):
            return torch.linalg.solve(a * 2, b)

        compiled = self.compiled(solved)
        compiled(torch.eye(3), torch.ones(3, 1))
        with self.assertRaisesRegex(relayvm.ProgramFailed, "a matrix of `torch.linalg.solve` is singular"):
            compiled(torch.zeros(3, 3), torch.ones(3, 1))
        backtrace = "  in `main` at aten.mul.Tensor node `mul` of model\n"
        error = self.programs[0]._located(relayvm.ProgramFailed("too large", "program-failed", backtrace, "memory"))
        self.assertIn("node `mul` of model\n  File", str(error))
        self.assertIn("in solved: return torch.linalg.solve(a * 2, b)", str(error))
        self.assertEqual((type(error), error.limit), (relayvm.ProgramFailed, "memory"))


class Gradients(Case):
    def train(self, model, *inputs, graphs=None, strict=True, tolerance=TOLERANCE):
        other, compiled = copy.deepcopy(model), self.compiled(model, strict=strict, dynamic=True)
        for x in inputs:
            self.close(compiled(x), other(x))
            for function in compiled, other:
                function(x).square().mean().backward()
        for a, b in zip(model.parameters(), other.parameters()):
            self.close(a.grad, b.grad, tolerance)
        self.close(model.state_dict(), other.state_dict())

    def test_mlp(self):
        model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.BatchNorm1d(4), nn.Softmax(-1))
        self.train(model, *(torch.randn(n, 6) for n in (3, 6, 7)))
        self.assertEqual(len(self.programs), 2)

    def test_transformer(self):
        model = nn.Sequential(nn.Embedding(20, 16, padding_idx=3), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
                              nn.Linear(16, 20))
        self.train(model, *(torch.randint(0, 20, (2, n)) for n in (5, 7)))

    def test_convolutions(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                              nn.Linear(128, 5))
        self.train(model, torch.randn(2, 3, 8, 8), torch.randn(3, 3, 8, 8))

    def test_kinds_of_convolutions(self):
        for name, layer, shape in (("strided", nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 8, 9)),
                                   ("grouped", nn.Conv2d(4, 6, 3, groups=2, bias=False), (2, 4, 7, 7)),
                                   ("depthwise", nn.Conv2d(4, 8, (3, 1), groups=4, dilation=2), (2, 4, 7, 7)),
                                   ("transposed", nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 5, 6)),
                                   ("of one axis", nn.Conv1d(4, 6, 3, stride=2), (2, 4, 10))):
            with self.subTest(name):
                torch._dynamo.reset()
                x = torch.randn(shape, requires_grad=True)
                outputs = self.compiled(layer)(x), layer(x)
                self.close(*outputs)
                grads = [torch.autograd.grad(y.square().sum(), [x, *layer.parameters()]) for y in outputs]
                self.close(*grads, 1e-4)

    def test_gradients_of_inputs(self):
        x = torch.randn(4, requires_grad=True)
        (got,) = torch.autograd.grad(self.compiled(lambda x: (x ** 3).sum())(x), x)
        self.close(got, 3 * x ** 2)

    def test_dropout_draws(self):
        model = nn.Sequential(nn.Linear(50, 1000), nn.Dropout(0.3))
        compiled, x = self.compiled(model), torch.randn(4, 50)
        torch.manual_seed(3)
        first, second = compiled(x), compiled(x)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(first, compiled(x)))
        self.assertFalse(torch.equal(first, second))
        self.assertAlmostEqual((first == 0).float().mean().item(), 0.3, delta=0.03)
        first.sum().backward()
        # A weight's gradient counts the outputs that were kept.
        self.close(model[0].bias.grad, (first != 0).float().sum(0) / 0.7)

    def test_optimizers_change_weights(self):
        model = nn.Linear(3, 1)
        compiled, optimizer = self.compiled(model), torch.optim.SGD(model.parameters(), 0.1)
        x, wanted = torch.randn(64, 3), torch.randn(1, 3)
        for _ in range(60):
            optimizer.zero_grad()
            (compiled(x) - x @ wanted.T).square().mean().backward()
            optimizer.step()
        self.close(model.weight, wanted, 0.02)
        with torch.no_grad():
            self.close(compiled(x), model(x))


class Processes(Case):
    def test_threads(self):
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
        compiled, wrong = self.compiled(model, dynamic=True), []

        def run(offset):
            with torch.no_grad():
                for i in range(100):
                    x = torch.randn(1 + (i + offset) % 7, 64)
                    if difference(compiled(x), model(x)) > TOLERANCE:
                        wrong.append(i)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_copies_and_pickles(self):
        model = nn.Linear(4, 4)
        compiled, x = self.compiled(model), torch.randn(2, 4)
        with torch.no_grad():
            self.close(compiled(x), model(x))
            other = copy.deepcopy(compiled)
            other.weight.add_(1)
            self.close(other(x), other._orig_mod(x))
            self.assertGreater(difference(other(x), compiled(x)), 1e-3)
            self.close(pickle.loads(pickle.dumps(compiled))(x), model(x))

    def test_inference_mode(self):
        model = nn.Linear(4, 4)
        compiled, x = self.compiled(model), torch.randn(2, 4)
        with torch.inference_mode():
            self.close(compiled(x), model(x))
        with torch.no_grad():
            self.close(compiled(x), model(x))


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))
        self.linear = nn.Linear(3, 3)

    def forward(self, x, *, y):
        self.total += x.sum(0)
        self.calls += 1
        y.mul_(2)
        return {"a": self.linear(x) * self.total, "b": (y + 1, self.calls, None)}


class Modules(Case):
    def test_state_and_structure(self):
        model = Stateful().eval()
        module = relayvm.torch.compile(model, (torch.ones(2, 3),), {"y": torch.ones(4)},
                                       dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "y": None})
        with torch.no_grad():
            for n in (2, 5, 3):
                x, y = torch.randn(n, 3), torch.randn(4)
                z = y.clone()
                self.close((module(x, y=y), y), (model(x, y=z), z))
            self.close((module.state_total, module.state_calls), (model.total, model.calls))
            for other in copy.deepcopy(module), pickle.loads(pickle.dumps(module)):
                self.assertEqual(other(x, y=y)["b"][1].item(), 4)
        self.assertEqual(module.state_calls.item(), 3)
        with self.assertRaisesRegex(relayvm.InvalidArgument, "the model was exported with"):
            module(x, y)

    def test_random_numbers(self):
        class Noise(nn.Module):
            def forward(self, x):
                return x + torch.rand_like(x), {"half": x / 2}

        module = relayvm.torch.compile(Noise(), (torch.zeros(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows")},))
        x = torch.zeros(500, 4)
        torch.manual_seed(5)
        first, second = module(x)[0], module(x)[0]
        torch.manual_seed(5)
        self.assertTrue(torch.equal(module(x)[0], first))
        self.assertFalse(torch.equal(first, second))
        self.assertAlmostEqual(first.mean().item(), 0.5, delta=0.05)

    def test_threads(self):
        model, module = self.lstm()
        wrong = []

        def run(count):
            with torch.no_grad():
                for time in range(1, 30):
                    x = torch.randn(count, time, 4)
                    if difference(module(x), model(x)) > TOLERANCE:
                        wrong.append(time)

        threads = [threading.Thread(target=run, args=(count,)) for count in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def lstm(self):
        model = nn.LSTM(4, 8, batch_first=True).eval()
        batch, time = torch.export.Dim("batch"), torch.export.Dim("time", max=1000)
        return model, relayvm.torch.compile(model, (torch.randn(2, 5, 4),), dynamic_shapes={"input": {0: batch, 1: time}})

    def test_lengths(self):
        model, module = self.lstm()
        with torch.no_grad():
            for batch, time in ((1, 1), (1, 7), (3, 70), (2, 500)):
                x = torch.randn(batch, time, 4)
                self.close(module(x), model(x))

    def test_files_and_names(self):
        model, module = self.lstm()
        with tempfile.TemporaryDirectory() as folder:
            module.executable.save(f"{folder}/lstm.rvm")
            loaded = relayvm.torch.Module(f"{folder}/lstm.rvm", threads=2)
            x = torch.randn(2, 9, 4)
            with torch.no_grad():
                y, (h, c) = model(x)
                self.close(loaded(input=x), (y, h, c))
                self.close(loaded(x.numpy()), (y, h, c))
            self.assertEqual(loaded.signature.inputs[0].name, "input")
            for text, call in (("argument 1 .*float64", lambda: loaded(x.double())), ("no value for input", lambda: loaded(inputs=x)),
                               ("requires a gradient", lambda: loaded(x.clone().requires_grad_())),
                               ("on the device meta", lambda: loaded(x.to("meta"))), ("complex64", lambda: loaded(x.to(torch.complex64)))):
                with self.subTest(text), self.assertRaisesRegex(relayvm.InvalidArgument, text):
                    call()
            with self.assertRaisesRegex(TypeError, "compiled already"):
                relayvm.torch.Module(module.executable, target="portable")

    def test_programs_of_relay(self):
        module = relayvm.torch.Module("def @main(%x: Tensor[(n), float32], %k: int32) -> (Tensor[(n), float32], (int32, List[int32])) "
                                      "{ (%x * 2f, (%k, [%k, 1])) }")
        x, (k, numbers) = module(torch.ones(600)[::2], k=4)
        self.assertEqual((x.sum().item(), k.item(), list(numbers)), (600, 4, [4, 1]))
        self.assertEqual(module(torch.ones(2), torch.tensor(5, dtype=torch.int32))[1][0].dtype, torch.int32)


class Document(Case):
    def test_examples(self):
        """Runs the examples of docs/pytorch.md one after the other."""
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        examples = re.findall(r"^```python\n(.*?)^```$", (root / "docs/pytorch.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(examples), 4)
        names = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for example in examples:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(example, "docs/pytorch.md", "exec"), names)
                said = set(printed.getvalue().splitlines())
                self.assertEqual(said, set(re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE)), example)


class Kinds(nn.Module):
    """A loop, a branch, several results of a node, writes, and a dtype that numpy lacks."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(10, 8), nn.LSTM(8, 8, batch_first=True)

    def forward(self, tokens):
        x = self.lstm(self.embed(tokens))[0].clone()
        x.add_(1)
        left, right = x.split(4, dim=2)
        top, index = torch.max(left, dim=1)
        wide = (x.to(torch.bfloat16) * 3).float()
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (right,)), top, index, wide


class Compare(unittest.TestCase):
    def test_programs_beside_pytorch(self):
        example = torch.zeros(2, 5, dtype=torch.long)
        exported = torch.export.export(Kinds().eval(), (example,), dynamic_shapes=({0: torch.export.Dim("b", max=64)},))
        found = relayvm.compare(exported, all=True)
        self.assertTrue(found.agrees, found)
        self.assertGreater(len(found.nodes), 10)
        file = io.BytesIO()
        torch.export.save(exported, file)
        tokens = torch.randint(0, 10, (7, 5))
        recorded = relayvm.torch.record(exported, tokens)
        found = relayvm.compare(file.getvalue(), {"tokens": tokens.numpy()}, reference=recorded, all=True)
        self.assertTrue(found.agrees, found)
        self.assertEqual(found.outputs[1].shape, (7, 4))
        found = relayvm.compare(file.getvalue(), {"tokens": tokens.numpy()}, reference=recorded | {"add_": recorded["add_"] * 2}, all=True)
        self.assertEqual(found.first.name, "add_")


class Imported(unittest.TestCase):
    """relayvm.import_torch of live modules."""

    class Calls(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def test_programs_that_are_decomposed(self):
        """Transforms of functions, writes through views, and operators that only their decompositions have."""
        def written(x, view):
            y = x.clone()
            view(y).mul_(2)
            return y

        x = torch.randn(4, 6)
        for function in (torch.vmap(lambda row: row.softmax(0) @ row), lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
                         lambda x: written(x, lambda y: y.narrow(1, 1, 3)), lambda x: written(x, lambda y: y.unfold(1, 2, 2)),
                         lambda x: torch.vander(x[0]), lambda x: torch.fft.hfft(torch.complex(x, x))):
            module = self.Calls(function)
            executable = relayvm.compile(relayvm.import_torch(module, (x,)))
            torch.testing.assert_close(torch.from_numpy(numpy.array(executable(x.numpy()))), function(x))

    def test_the_first_refusal_is_shown(self):
        with self.assertRaisesRegex(relayvm.ImportFailed, "aten.segment_reduce.default"):
            relayvm.import_torch(self.Calls(lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 3]))), (torch.randn(4, 6),))


if __name__ == "__main__":

    if "relayvm" not in torch._dynamo.list_backends():  # the packages are not installed, but on the path
        torch._dynamo.register_backend(relayvm.torch.backend, name="relayvm")
    unittest.main(verbosity=2)
