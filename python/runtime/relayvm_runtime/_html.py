"""Programs and profiles as HTML for notebooks: self-contained, without scripts, all text escaped."""

import html

_WIDTH, _BAR, _LABEL = 720, 18, 220
# For readers who cannot tell red from green, too.
_COLOURS = {"kernels": "#4477aa", "kernel_calls": "#66ccee", "memory": "#ccbb44", "instructions": "#228833",
            "import": "#aa3377", "export": "#ee6677", "other": "#bbbbbb", "away": "#dddddd"}
_WORDS = {"kernels": "kernels", "kernel_calls": "calls of kernels", "memory": "cells made, values given up",
          "instructions": "other instructions", "import": "arguments in", "export": "results out",
          "other": "beginning and end of a run", "away": "the processor did something else"}


def escape(text):
    return html.escape(str(text), quote=True)


def table(caption, header, rows):
    """Each row has as many cells as the header; a cell that is a number stands at the right."""
    def cell(value):
        align = "right" if isinstance(value, (int, float)) else "left"
        text = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        return f'<td style="text-align: {align}">{escape(text)}</td>'

    head = "".join(f'<th style="text-align: left">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bars(caption, rows):
    """An SVG picture. rows: (label, nanoseconds, colour), longest first."""
    most = max((ns for _, ns, _ in rows), default=0) or 1
    height = len(rows) * (_BAR + 4) + 24
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" role="img" '
             f'font-family="sans-serif" font-size="12"><title>{escape(caption)}</title>'
             f'<text x="0" y="14" font-weight="bold" fill="currentColor">{escape(caption)}</text>']
    for i, (label, ns, colour) in enumerate(rows):
        y = 22 + i * (_BAR + 4)
        width = max(1.0, (_WIDTH - _LABEL - 90) * ns / most)
        shown = label if len(label) <= 34 else label[:33] + "…"
        parts.append(f'<g><title>{escape(label)}: {ns / 1e6:.3f} ms</title>'
                     f'<text x="0" y="{y + 13}" fill="currentColor">{escape(shown)}</text>'
                     f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
                     f'<text x="{_LABEL + width + 4:.1f}" y="{y + 13}" fill="currentColor">{ns / 1e6:.3f} ms</text></g>')
    return "".join(parts) + "</svg>"


def program(executable):
    """The entries of an Executable, and what its file is."""
    kind = "machine code for this kind of CPU" if executable.is_native else "portable"
    rows = [(f"@{name}", text) for name, text in executable.entries.items()]
    return f"<div>{table(f'Executable of RelayVM, {kind}', ('entry', 'type'), rows)}</div>"


def module(text, params):
    """A program that is not compiled yet: its text, and the tensors that it needs."""
    weights = [(f"%{name}", str(value.dtype), "×".join(map(str, value.shape)) or "scalar", int(value.nbytes))
               for name, value in params.items()]
    shown = table("Weights", ("name", "dtype", "shape", "bytes"), weights) if weights else ""
    return f'<div><pre style="max-height: 30em; overflow: auto">{escape(text)}</pre>{shown}</div>'


def profile(data):
    """The data of a Profile: where the time went, its kernels and functions as bars."""
    split = [(_WORDS.get(name, name), ns, _COLOURS.get(name, "#bbbbbb"))
             for name, ns in sorted(data["split_ns"].items(), key=lambda item: -item[1]) if ns]
    pictures = [bars(f"@{data['entry']}: where the time of {data['runs']} run{'' if data['runs'] == 1 else 's'} went", split)]
    for key, ns, caption in (("kernels", "ns", "Kernels"), ("functions", "self_ns", "Functions, without their kernels")):
        rows = sorted(data[key], key=lambda row: -row[ns])[:12]
        colour = _COLOURS["kernels" if key == "kernels" else "instructions"]
        if rows:
            pictures.append(bars(caption, [(f"{row['name']} ({row['calls']:,} calls)", row[ns], colour) for row in rows]))
    return f"<div>{'<br/>'.join(pictures)}</div>"
