"""Pictures of programs: `inspect --graph`, `profile --flame` and `report`."""

import html.parser
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import relayvm

PROGRAM = """type Steps { More(Tensor[(1, 4), float32], Steps), Done, }
free_var %w: Tensor[(4, 4), float32];
def @walk(%s: Steps, %h: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] {
  match (%s) { Done => %h, More(%x, %rest) => @walk(%rest, tanh(nn.dense(%x, %w) + %h)) }
}
def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] {
  @walk(More(%x, More(%x, Done)), nn.dense(%x, %w))
}
def @open(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] { tanh(%x) }
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox-esr", "firefox")


class Report(relayvm.TestCase):
    @classmethod
    def setUpClass(cls):
        import numpy as np
        cls.folder = tempfile.TemporaryDirectory()
        np.savez(cls.path("w.npz"), w=np.eye(4, dtype=np.float32))
        np.save(cls.path("x.npy"), np.ones((1, 4), np.float32))
        with open(cls.path("walk.relay"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        cls.model = relayvm.compile_file(cls.path("walk.relay"), cls.path("walk.rvm"), params=[cls.path("w.npz")],
                                         extra=["--entry", "main", "--entry", "open"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def error(self, *args):
        done = relayvm.run(relayvm.COMPILER, *args)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    # ---- inspect --graph

    def graph(self, *options):
        relayvm.must(relayvm.COMPILER, "inspect", self.model, "--graph", self.path("g.dot"), *options)
        return self.read("g.dot")

    def test_graph_has_entries_kernels_branches_and_shared_weights(self):
        dot = self.graph()
        for text in ('label="entry @main -> Tensor[(1, 4), float32]"', 'label="%x: Tensor[(1, 4), float32]"',
                     'label="dense_add_tanh\\nTensor[(1, 4), float32]"', 'label="More\\nSteps"', 'label="Done\\nSteps"',
                     "shape=diamond", 'label="tail call @walk"', "entry @open"):
            self.assertIn(text, dot)
        self.assertEqual(len(re.findall(r"shape=box3d.*penwidth=3", dot)), 1, "the weights of both dense layers")

    def test_graph_edges_join_nodes_that_exist(self):
        dot = self.graph()
        nodes = set(re.findall(r"^ +(\w+) \[", dot, re.M))
        edges = re.findall(r"^ +(\w+) -> (\w+)", dot, re.M)
        self.assertGreater(len(edges), 10)
        for edge in edges:
            self.assertLessEqual(set(edge), nodes)
        # The state of the loop comes from its first value and from the step before.
        step = re.search(r'(\w+) \[label="dense_add_tanh', dot).group(1)
        self.assertIn((step, step), edges)

    def test_graph_of_one_entry(self):
        self.assertNotIn("@open", self.graph("--entry", "main"))
        self.assertNotIn("@walk", self.graph("--entry", "open"))
        self.assertIn("no entry `x`", self.error("inspect", self.model, "--graph", self.path("g.dot"), "--entry", "x"))

    def test_graph_wants_a_path_it_can_write(self):
        self.assertIn("expected a file that ends in .svg or .dot",
                      self.error("inspect", self.model, "--graph", self.path("g.png")))

    def test_graph_without_graphviz(self):
        done = subprocess.run([relayvm.COMPILER, "inspect", self.model, "--graph", self.path("g.svg")],
                              env={"PATH": self.folder.name}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("install the package graphviz", done.stderr)

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed: no graph is drawn")
    def test_graph_drawn(self):
        relayvm.must(relayvm.COMPILER, "inspect", self.model, "--graph", self.path("g.svg"))
        texts = "".join(ElementTree.parse(self.path("g.svg")).getroot().itertext())
        self.assertIn("dense_add_tanh", texts)

    # ---- profile --flame

    def test_flame_graph(self):
        for path in "flame.svg", "flame.folded":
            relayvm.must(relayvm.COMPILER, "profile", self.model, "--flame", self.path(path), f"@{self.path('x.npy')}")
        stacks = dict(line.rsplit(" ", 1) for line in self.read("flame.folded").splitlines())
        self.assertIn("@main;dense", " ".join(stacks))
        self.assertTrue(any("dense_add_tanh" in stack for stack in stacks), stacks)
        root = ElementTree.parse(self.path("flame.svg")).getroot()
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertRegex("\n".join(titles), r"(?m)^@walk: \d+\.\d+ ms, \d+\.\d%, 2 calls$|^@walk: .* [123] calls$")
        self.assertIn("expected a file that ends in .svg or .folded",
                      self.error("profile", self.model, "--flame", self.path("f.png"), f"@{self.path('x.npy')}"))

    # ---- report

    def report(self, *args):
        path = relayvm.must(relayvm.COMPILER, "report", *args).strip()
        with open(path, encoding="utf-8") as file:
            return file.read()

    def check_page(self, page):
        ElementTree.fromstring(page.replace("<!DOCTYPE html>\n", ""))
        loaded = []

        class Loads(html.parser.HTMLParser):
            def handle_starttag(self, tag, attrs):
                loaded.extend((tag, name, value) for name, value in attrs if name in ("src", "href", "xlink:href"))
                if tag in ("script", "link", "img", "iframe"):
                    loaded.append(tag)

        Loads().feed(page)
        self.assertEqual(loaded, [], "a page that needs the network or a script")
        self.assertNotIn("@import", page)

    def test_report_of_a_run(self):
        page = self.report(self.model, f"@{self.path('x.npy')}", "--dims", "n=3", "-o", self.path("r.html"))
        self.check_page(page)
        for text in ("@main(%x: Tensor[(1, 4), float32])", "where the time goes", "cells and tensors", "code of functions",
                     "<td class=\"name\">dense_add_tanh</td>", "@walk: "):
            self.assertIn(text, page)
        self.assertEqual("<svg" in page.split("<h2>Program</h2>")[1], shutil.which("dot") is not None)

    def test_report_without_values_and_extents_says_what_is_missing(self):
        page = self.report(self.model)
        self.check_page(page)
        self.assertTrue(os.path.exists(self.path("walk.html")))
        self.assertIn("Not run: no values for @main were given", page)
        self.assertIn("No forecast: ", page)

    def test_report_compiles_a_source(self):
        page = self.report(self.path("walk.relay"), "--params", self.path("w.npz"), "-o", self.path("s.html"))
        self.check_page(page)
        self.assertIn("native executable", page)

    def test_report_of_a_bad_path(self):
        self.assertIn("no file given", self.error("report"))
        self.assertIn("cannot", self.error("report", self.model, "-o", self.path("missing/r.html")))

    @unittest.skipUnless(any(map(shutil.which, BROWSERS)), f"no browser is installed (any of {', '.join(BROWSERS)})")
    def test_report_opens_in_a_browser(self):
        self.report(self.model, f"@{self.path('x.npy')}", "-o", self.path("b.html"))
        browser = next(filter(None, map(shutil.which, BROWSERS)))
        shot = self.path("b.png")
        chrome = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--screenshot={shot}", "--window-size=1280,2000"]
        firefox = ["--headless", "--screenshot", shot]
        command = [browser, *(firefox if "firefox" in browser else chrome), f"file://{self.path('b.html')}"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        self.assertGreater(os.path.getsize(shot), 10_000)

