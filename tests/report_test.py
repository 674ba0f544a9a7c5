"""Pictures of programs: `inspect --graph`, `profile --flame` and `report`."""

import html.parser
import json
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
# Does on the page what a user would, and writes down what is seen.
CLICKS = """
const seen = {};
const rows = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
const kernels = document.querySelector("tr[id^=kernel-]").closest("table");
const heading = (table, text) => [...table.tHead.rows[0].cells].find((cell) => cell.textContent === text);
heading(kernels, "kernel").click();
seen.up = rows(kernels);
heading(kernels, "kernel").click();
seen.down = rows(kernels);
heading(kernels, "time").click();
seen.times = [...kernels.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value));
const search = kernels.previousElementSibling;
search.value = "TANH";
search.dispatchEvent(new Event("input"));
seen.found = rows(kernels);
search.value = "";
search.dispatchEvent(new Event("input"));

const panel = document.getElementById("panel");
const node = [...document.querySelectorAll("#graph g.node")].find((g) => g.textContent.includes("dense_add_tanh"));
if (node) {
  node.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  seen.panel = panel.hidden ? "" : panel.textContent;
  seen.marked = [...document.querySelectorAll("tr.chosen")].map((row) => row.cells[0].textContent);
  panel.querySelector("button").click();
  seen.closed = panel.hidden && document.querySelectorAll(".chosen").length === 0;
}
const point = document.querySelector("circle.kernel");
point.dispatchEvent(new MouseEvent("click", {bubbles: true}));
seen.point = panel.hidden ? "" : panel.textContent;

const frame = [...document.querySelectorAll(".flame g")].find((g) => g.textContent.includes("@walk"));
const width = () => Number(frame.querySelector("rect").getAttribute("width"));
const before = width();
frame.dispatchEvent(new MouseEvent("click", {bubbles: true}));
seen.flame = [before, width(), Number(document.querySelector(".flame svg").getAttribute("width"))];

const line = document.getElementById("timeline");
const range = () => Number(line.dataset.to) - Number(line.dataset.from);
const all = range();
line.dispatchEvent(new WheelEvent("wheel", {deltaY: -1, clientX: line.getBoundingClientRect().x + 10}));
const zoomed = range();
line.dispatchEvent(new MouseEvent("dblclick"));
seen.line = [all, zoomed, range()];
const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify(seen);
document.body.append(result);
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
        self.assertRegex("\n".join(titles), r"(?m)^@walk: [\d.]+ [num]?s, \d+\.\d%, 2 calls$|^@walk: .* [123] calls$")
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
                if tag in ("link", "img", "iframe"):
                    loaded.append(tag)

        Loads().feed(page)
        self.assertEqual(loaded, [], "a page that needs the network")
        self.assertNotIn("@import", page)

    def test_report_of_a_run(self):
        page = self.report(self.model, f"@{self.path('x.npy')}", "--dims", "n=3", "-o", self.path("r.html"))
        self.check_page(page)
        for text in ("@main(%x: Tensor[(1, 4), float32])", "where the time goes", "cells and tensors", "code of functions",
                     "<td class=\"name\">dense_add_tanh</td>", "@walk: "):
            self.assertIn(text, page)
        self.assertEqual("<svg" in page.split("<h2>Program</h2>")[1], shutil.which("dot") is not None)
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
        names = [data["timeline"]["names"][event[4]] for event in data["timeline"]["events"]]
        self.assertEqual((names.count("@walk"), names.count("dense_add_tanh")), (1, 2))  # the tail call is a loop
        self.assertIn(" in 2 calls", {kernel["name"]: kernel["time"] for kernel in data["kernels"]}["dense_add_tanh"])
        self.assertRegex(page, r'<circle class="kernel" id="point-\d+".*<title>dense_add_tanh: [\d.]+ .FLOP/s')

    def test_operations_of_kernels(self):
        """2 * 4 * 4 of the product, and 8 of sum and tanh: the file says them, by the extents of a call."""
        text = relayvm.must(relayvm.COMPILER, "inspect", self.model, "--full")
        text = dict(re.findall(r'metadata "operations\.rvm_k\d+_(\w+)" "(.*)"', text))
        self.assertEqual(text["dense_add_tanh"], "40")
        self.assertEqual(sorted(text["tanh"].split()), ["*", "4", "s0"])

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

    def test_report_against_another_program(self):
        with open(self.path("slow.relay"), "w", encoding="utf-8") as file:
            file.write(PROGRAM.replace("tanh(nn.dense(%x, %w) + %h)", "exp(tanh(nn.dense(%x, %w) + %h))"))
        page = self.report(self.model, "--against", relayvm.compile_file(
            self.path("slow.relay"), self.path("slow.rvm"), params=[self.path("w.npz")]), f"@{self.path('x.npy')}", "-o",
            self.path("a.html"))
        self.check_page(page)
        beside = page.split("<h2>Beside ")[1].split("<h2>")[0]
        for text in ("the whole run, unwatched", "dense_add_tanh</td>", "dense_add_tanh_exp", "@walk", "most memory of the run",
                     "constants</td>"):
            self.assertIn(text, beside)
        self.assertRegex(beside, r"unwatched</td><td[^>]*>[\d.]+ [num]?s</td><td[^>]*>[\d.]+ [num]?s</td><td[^>]*>[\d.]+x")
        # A kernel of one of the two has no ratio.
        self.assertRegex(beside, r'dense_add_tanh_exp</td><td[^>]*>[\d.]+ [num]?s</td><td[^>]*></td><td[^>]*></td>')
        page = self.report(self.model, "--against", self.model, "-o", self.path("a.html"))
        self.assertNotIn("the whole run", page.split("<h2>Beside ")[1].split("<h2>")[0])  # no values were given
        self.assertIn("cannot", self.error("report", self.model, "--against", self.path("missing.rvm")))

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

    @unittest.skipUnless(any(map(shutil.which, BROWSERS[:3])), f"no browser is installed (any of {', '.join(BROWSERS[:3])})")
    def test_report_is_clicked_through(self):
        page = self.report(self.model, f"@{self.path('x.npy')}", "-o", self.path("c.html"))
        with open(self.path("c.html"), "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", f"<script>//<![CDATA[\n{CLICKS}//]]></script></body>"))
        browser = next(filter(None, map(shutil.which, BROWSERS[:3])))
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
                               f"file://{self.path('c.html')}"], check=True, capture_output=True, text=True, timeout=120)
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
        self.assertIsNotNone(found, done.stderr)
        seen = json.loads(html.unescape(found.group(1)))
        self.assertEqual((seen["up"], seen["down"]), (sorted(seen["up"]), sorted(seen["up"], reverse=True)))
        times = [-1 if time is None else time for time in seen["times"]]  # of kernels that did not run: last
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(sorted(seen["found"]), sorted(name for name in seen["up"] if "tanh" in name))
        self.assertIn("dense_add_tanh", seen["point"] + seen["found"][0])
        if shutil.which("dot"):
            for text in ("dense_add_tanh", "@walk", "walk.relay:4:", "Tensor[(1, 4), float32]"):
                self.assertIn(text, seen["panel"])
            self.assertEqual((seen["marked"], seen["closed"]), (["dense_add_tanh"], True))
        before, after, whole = seen["flame"]
        self.assertLess(before, after)
        self.assertAlmostEqual(after, whole)
        every, zoomed, again = seen["line"]
        self.assertLess(zoomed, every)
        self.assertEqual(again, every)
