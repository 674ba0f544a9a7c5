"""A client of `relayvm lsp`, for tests."""

import itertools
import json
import queue
import subprocess
import threading

import relayvm

URI = "file:///test.relay"


class Refused(Exception):
    """A request that the server answered with an error."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Server:
    """A server with one client. Messages that arrive are sorted into answers and diagnostics."""

    def __init__(self, initialize=True, capabilities=None):
        self.process = subprocess.Popen([relayvm.COMPILER, "lsp", "--stdio"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ids = itertools.count(1)
        self.versions = itertools.count(1)
        self.answers, self.diagnostics = {}, {}
        self.incoming = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if initialize:
            related = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}}}
            self.capabilities = self.request("initialize", {"processId": None, "rootUri": None,
                                                            "capabilities": related if capabilities is None else capabilities})
            self.notify("initialized", {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()

    def _read(self):
        out = self.process.stdout
        while True:
            length = None
            while (line := out.readline().strip()):
                name, _, value = line.decode().partition(":")
                if name == "Content-Length":
                    length = int(value)
            text = b"" if length is None else out.read(length)
            if length is None or len(text) < length:
                self.incoming.put(None)
                return
            self.incoming.put(json.loads(text))

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages):
        """Sends messages at once, so that the server sees the later ones while it answers the first."""
        data = b""
        for message in messages:
            text = json.dumps({"jsonrpc": "2.0", **message}).encode()
            data += b"Content-Length: %d\r\n\r\n" % len(text) + text
        self.send_bytes(data)

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def receive(self):
        message = self.incoming.get(timeout=60)
        if message is None:
            raise EOFError(f"the server ended: {self.process.stderr.read().decode()[-2000:]}")
        if "method" in message:
            assert message["method"] == "textDocument/publishDiagnostics", message
            self.diagnostics[message["params"]["uri"]] = message["params"]
        else:
            self.answers[message["id"]] = message
        return message

    def answer(self, request_id):
        while request_id not in self.answers:
            self.receive()
        message = self.answers.pop(request_id)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def request(self, method, params):
        request_id = next(self.ids)
        self.send({"id": request_id, "method": method, "params": params})
        return self.answer(request_id)

    def open(self, text, uri=URI):
        """Opens a text; its diagnostics."""
        self.diagnostics.pop(uri, None)
        version = next(self.versions)
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "relay", "version": version,
                                                              "text": text}})
        return self.wait(uri)

    def change(self, *changes, uri=URI):
        """Changes a text by whole texts or by (begin, end, text); its diagnostics."""
        self.diagnostics.pop(uri, None)
        content = [{"text": c} if isinstance(c, str) else
                   {"range": {"start": position(c[0]), "end": position(c[1])}, "text": c[2]} for c in changes]
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": next(self.versions)},
                                               "contentChanges": content})
        return self.wait(uri)

    def wait(self, uri=URI):
        while uri not in self.diagnostics:
            self.receive()
        return self.diagnostics[uri]["diagnostics"]

    def at(self, method, place, uri=URI, **more):
        """A request about a place (line, character) of a text."""
        return self.request(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": position(place), **more})

    def end(self):
        """Shuts the server down; its exit code."""
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(timeout=60)


def position(place):
    return {"line": place[0], "character": place[1]}


def place_of(text, part, nth=0, behind=False):
    """(line, UTF-16 column) of the nth occurrence of a part, or behind it."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(part, at + 1)
    return place_at(text, at + len(part) if behind else at)


def place_at(text, at):
    line_begin = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, at), len(text[line_begin:at].encode("utf-16-le")) // 2


def spans(text, items):
    """The parts of the text at the ranges of locations or edits."""
    lines = text.split("\n")

    def offset(at):
        line = lines[at["line"]].encode("utf-16-le")
        return sum(len(l) + 1 for l in lines[:at["line"]]) + len(line[:2 * at["character"]].decode("utf-16-le"))

    return [(offset(item["range"]["start"]), offset(item["range"]["end"])) for item in items]


def apply_edits(text, edits):
    for (begin, end), edit in sorted(zip(spans(text, edits), edits), key=lambda pair: pair[0][0], reverse=True):
        text = text[:begin] + edit["newText"] + text[end:]
    return text
