"""Executables without machine code run where machine code is refused; signatures say whose machine code may run."""

import os
import struct
import tempfile
import unittest

import numpy as np

import relayvm

MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32]) -> Tensor[(?, 4), float32] {
  nn.softmax(nn.dense(tanh(%x), meta[relay.Constant][0]))
}
"""


class Portable(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = self.path("model.relay")
        with open(self.source, "w", encoding="utf-8") as file:
            file.write(MODEL.replace("meta[relay.Constant][0]", "%weight").replace(
                "def @main", "free_var %weight: Tensor[(4, 8), float32];\ndef @main"))
        random = np.random.default_rng(5)
        self.x = random.standard_normal((3, 8)).astype("float32")
        np.save(self.path("x.npy"), self.x)
        np.savez(self.path("w.npz"), weight=random.standard_normal((4, 8)).astype("float32"))
        self.weight = np.load(self.path("w.npz"))["weight"]

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, name, *extra):
        return relayvm.compile_file(self.source, self.path(name), params=[self.path("w.npz")], extra=extra)

    def run_model(self, model, *flags):
        out = self.path("out.npy")
        done = relayvm.run(relayvm.RUNTIME, model, *flags, "@" + self.path("x.npy"), "--out", out)
        return done, np.load(out) if done.returncode == 0 else None

    def test_portable_needs_no_trust(self):
        model = self.compile("portable.rvm", "--target", "portable")
        done, y = self.run_model(model, "--no-allow-native")
        self.assertEqual(done.returncode, 0, done.stderr)
        scores = np.exp(np.tanh(self.x) @ self.weight.T)
        np.testing.assert_allclose(y, scores / scores.sum(axis=1, keepdims=True), rtol=1e-5)
        self.assertIn("portable: no machine code", relayvm.must(relayvm.COMPILER, "verify", model))

    def test_portable_is_the_same_bytes_each_time(self):
        with open(self.compile("a.rvm", "--target", "portable"), "rb") as a:
            with open(self.compile("b.rvm", "--target", "portable"), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_native_needs_leave_or_a_signature(self):
        model = self.compile("native.rvm")
        refused, _ = self.run_model(model, "--no-allow-native")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("has machine code", refused.stderr)
        relayvm.must(relayvm.COMPILER, "keygen", self.path("mine"))
        relayvm.must(relayvm.COMPILER, "keygen", self.path("other"))
        unsigned, _ = self.run_model(model, "--key", self.path("mine.pub"))
        self.assertIn("is not signed", unsigned.stderr)
        relayvm.must(relayvm.COMPILER, "sign", model, "--key", self.path("mine.key"))
        signed, y = self.run_model(model, "--key", self.path("mine.pub"))
        self.assertEqual(signed.returncode, 0, signed.stderr)
        self.assertEqual(y.shape, (3, 4))
        stranger, _ = self.run_model(model, "--key", self.path("other.pub"))
        self.assertIn("signed by another key", stranger.stderr)
        both, _ = self.run_model(model, "--key", self.path("other.pub"), "--key", self.path("mine.pub"))
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertIn("signed by a key given", relayvm.must(relayvm.COMPILER, "verify", model, "--key", self.path("mine.pub")))

    def test_a_changed_weight_breaks_the_signature(self):
        model = self.compile("native.rvm")
        relayvm.must(relayvm.COMPILER, "keygen", self.path("mine"))
        relayvm.must(relayvm.COMPILER, "sign", model, "--key", self.path("mine.key"))
        with open(model, "r+b") as file:
            table = iter(lambda: struct.unpack("<HHIQQ", file.read(24)), None)
            file.seek(32)
            # The constant data, whose checksum is compared on request only.
            offset = next(offset for section, _, _, offset, _ in table if section == 8)
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 1]))
        changed, _ = self.run_model(model, "--key", self.path("mine.pub"))
        self.assertEqual(changed.returncode, 1)
        self.assertIn("changed after signing", changed.stderr)
        found = relayvm.run(relayvm.COMPILER, "verify", model)
        self.assertEqual(found.returncode, 1)
        self.assertIn("(constant data): saw checksum", found.stderr)

    def test_keys_are_kept_well(self):
        relayvm.must(relayvm.COMPILER, "keygen", self.path("mine"))
        self.assertEqual(os.stat(self.path("mine.key")).st_mode & 0o077, 0)
        again = relayvm.run(relayvm.COMPILER, "keygen", self.path("mine"))
        self.assertIn("a key is never overwritten", again.stderr)
        model = self.compile("native.rvm")
        wrong = relayvm.run(relayvm.COMPILER, "sign", model, "--key", self.path("mine.pub"))
        self.assertIn("expected `relayvm-secret-key ` and 128 hexadecimal digits", wrong.stderr)

    def test_inspect_shows_class_targets_and_sections(self):
        native = relayvm.must(relayvm.COMPILER, "inspect", self.compile("native.rvm", "--target", "x86-64-v2"))
        self.assertIn(": native executable, format 6.", native)
        self.assertRegex(native, r"target +x86-64-v2 \(x86_64-unknown-linux-gnu, kernel ABI 1\), \d+ bytes, needs \+sse2,")
        self.assertRegex(native, r"sections +strings, types, .*, targets, code object, signature\n")
        portable = relayvm.must(relayvm.COMPILER, "inspect", self.compile("portable.rvm", "--target", "portable"))
        self.assertIn(": portable executable, format 6.", portable)
        self.assertNotIn("  target ", portable)
        self.assertRegex(portable, r"sections +strings, types, .*, recipes, signature\n")

    def test_a_file_of_an_older_format_says_what_to_do(self):
        model = self.compile("old.rvm")
        with open(model, "r+b") as file:
            file.seek(8)
            file.write(b"\5\0\0\0")  # version 5.0
        done, _ = self.run_model(model)
        self.assertEqual(done.returncode, 1)
        self.assertIn("saw format version 5.0, expected 6.x: the file is older; compile the program again", done.stderr)

    def test_no_assembly_of_portable_executables(self):
        done = relayvm.run(relayvm.COMPILER, "compile", self.source, "--params", self.path("w.npz"), "--target",
                           "portable", "--print-assembly", "-o", self.path("m.rvm"))
        self.assertIn("has no machine code to print", done.stderr)


if __name__ == "__main__":
    unittest.main()
