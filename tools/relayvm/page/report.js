// The script of `relayvm report`: tables that sort and search, a time line and a flame graph that zoom, and nodes of the
// graph that show their kernel. The page is complete without it.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function element(name, attributes = {}, text = "") {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  // ---- tables

  function valueOf(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") {
      return (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b);
    }
    return String(a).localeCompare(String(b));
  }

  function sortBy(table, column) {
    const header = table.tHead.rows[0].cells[column];
    // Numbers begin with the greatest, texts with the first.
    const first = header.classList.contains("number") ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = header.getAttribute("aria-sort") === first ? other : first;
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => sign * compare(valueOf(a, column), valueOf(b, column)));
    table.tBodies[0].append(...rows);
  }

  for (const table of all("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      header.classList.add("sorts");
      header.addEventListener("click", () => sortBy(table, column));
    });
    const search = element("input", {type: "search", class: "search", placeholder: "search these rows"});
    search.hidden = table.tBodies[0].rows.length < 8;
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.before(search);
  }

  // ---- the choice of a kernel or a node

  const panel = element("div", {id: "panel", hidden: ""});
  document.body.append(panel);

  function show(title, facts) {
    panel.replaceChildren(element("strong", {}, title));
    const close = element("button", {style: "float:right"}, "close");
    close.addEventListener("click", () => choose(null, null));
    const list = element("dl");
    for (const [name, value] of facts) {
      if (value) list.append(element("dt", {}, name), element("dd", {}, value));
    }
    panel.prepend(close);
    panel.append(list);
    panel.hidden = false;
  }

  const nameOf = (node) => node.querySelector("title").textContent.trim();

  // Marks what belongs to kernel `kernel` (an index, or null), and to the node of the graph with the name `node`.
  function choose(kernel, node) {
    for (const chosen of all(".chosen")) chosen.classList.remove("chosen");
    panel.hidden = true;
    const facts = [];
    const described = node === null ? undefined : data.nodes[node];
    if (described) facts.push(["function", described.function], ["place", described.place], ["instruction", described.text]);
    if (kernel !== null) {
      const row = document.getElementById(`kernel-${kernel}`);
      if (row) row.classList.add("chosen");
      const point = document.getElementById(`point-${kernel}`);
      if (point) point.classList.add("chosen");
      const k = data.kernels[kernel];
      facts.push(["kernel", k.symbol], ["parameters", k.params], ["results", k.results], ["schedule", k.schedule],
                 ["time", k.time]);
    }
    for (const g of all("#graph g.node")) {
      const of = data.nodes[nameOf(g)];
      const isIt = nameOf(g) === node || (node === null && kernel !== null && of && of.kernel === kernel);
      g.classList.toggle("chosen", isIt);
    }
    if (facts.length > 0) show(kernel !== null ? data.kernels[kernel].name : described.text, facts);
  }

  for (const g of all("#graph g.node")) {
    g.addEventListener("click", () => {
      const described = data.nodes[nameOf(g)];
      if (described) choose(described.kernel === undefined ? null : described.kernel, nameOf(g));
    });
  }
  for (const row of all("tr[id^='kernel-']")) {
    row.addEventListener("click", () => choose(Number(row.id.slice("kernel-".length)), null));
  }
  for (const point of all("circle.kernel")) {
    point.addEventListener("click", () => choose(Number(point.id.slice("point-".length)), null));
  }

  // ---- the graph: wheel and Ctrl zoom

  for (const svg of all("#graph svg")) {
    let scale = 1;
    const width = svg.getBoundingClientRect().width;
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      scale = Math.min(8, Math.max(0.05, scale * (event.deltaY < 0 ? 1.2 : 1 / 1.2)));
      svg.setAttribute("width", width * scale);
      svg.removeAttribute("height");
    }, {passive: false});
  }

  // ---- the flame graph: a click makes a frame as wide as the drawing, one on the lowest frame shows all

  for (const svg of all(".flame svg")) {
    const frames = all("g", svg).map((g) => {
      const rect = g.querySelector("rect");
      const number = (name) => Number(rect.getAttribute(name));
      return {g, rect, text: g.querySelector("text"), x: number("x"), y: number("y"), width: number("width")};
    });
    const whole = Number(svg.getAttribute("width"));
    const zoom = (to) => {
      for (const frame of frames) {
        const isBelow = frame.y < to.y;
        const isInside = frame.x < to.x + to.width - 1e-6 && frame.x + frame.width > to.x + 1e-6;
        frame.g.style.display = isInside ? "" : "none";
        const x = isBelow ? 0 : (frame.x - to.x) * whole / to.width;
        const width = isBelow ? whole : frame.width * whole / to.width;
        frame.rect.setAttribute("x", x);
        frame.rect.setAttribute("width", width);
        if (frame.text) {
          frame.text.setAttribute("x", x + 3);
          frame.text.style.display = width > 30 ? "" : "none";
        }
      }
      svg.dataset.zoomed = nameOf(to.g);
    };
    for (const frame of frames) frame.g.addEventListener("click", () => zoom(frame));
  }

  // ---- the time line: the wheel zooms, dragging moves, a double click shows all

  const canvas = document.getElementById("timeline");
  if (canvas && data.timeline) {
    const {names, lines, events} = data.timeline;  // events: [line, depth, begin, length, name], in ns
    const end = Math.max(1, ...events.map((e) => e[2] + e[3]));
    const rowOf = [];  // the first row of each line
    let rows = 0;
    lines.forEach((_, line) => {
      rowOf.push(rows);
      rows += 1 + Math.max(0, ...events.filter((e) => e[0] === line).map((e) => e[1]));
    });
    const kRow = 16, kAxis = 20;
    const label = document.getElementById("timeline-label");
    let from = 0, to = end;
    canvas.style.height = `${Math.min(800, rows * kRow + kAxis)}px`;

    const durationText = (ns) => {
      const units = ["ns", "us", "ms", "s"];
      let unit = 0;
      for (; unit < 3 && ns >= 999.5; ++unit) ns /= 1000;
      return `${ns.toPrecision(3)} ${units[unit]}`;
    };

    function draw() {
      const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = "11px monospace";
      const scale = width / (to - from);
      const lastPixel = [];  // drawn of each row: short events are merged
      for (const [line, depth, begin, length, name] of events) {
        if (begin + length < from || begin > to) continue;
        const row = rowOf[line] + depth;
        const x = Math.max(0, (begin - from) * scale), right = Math.min(width, (begin + length - from) * scale);
        if (right < (lastPixel[row] ?? -1) + 0.5) continue;
        lastPixel[row] = right;
        context.fillStyle = names[name].startsWith("@") ? "#fecba1" : "#9ec5fe";
        context.fillRect(x, kAxis + row * kRow, Math.max(0.7, right - x), kRow - 1);
        if (right - x > 30) {
          context.fillStyle = "#212529";
          context.fillText(names[name].slice(0, Math.floor((right - x - 4) / 6.7)), x + 3, kAxis + row * kRow + 11);
        }
      }
      context.fillStyle = "#6c757d";
      for (let i = 0; i < 6; ++i) context.fillText(durationText(from + (to - from) * i / 6), width * i / 6 + 2, 12);
      canvas.dataset.from = from;
      canvas.dataset.to = to;
    }

    const timeAt = (event) => from + (event.offsetX / canvas.clientWidth) * (to - from);
    const setRange = (a, b) => {
      const length = Math.min(end, Math.max(end * 1e-7, b - a));
      from = Math.min(Math.max(0, a), end - length);
      to = from + length;
      draw();
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = timeAt(event), factor = event.deltaY < 0 ? 1 / 1.3 : 1.3;
      setRange(at - (at - from) * factor, at + (to - at) * factor);
    }, {passive: false});
    canvas.addEventListener("dblclick", () => setRange(0, end));
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 1) {
        const moved = event.movementX / canvas.clientWidth * (to - from);
        setRange(from - moved, to - moved);
      }
      const time = timeAt(event), row = Math.floor((event.offsetY - kAxis) / kRow);
      const found = events.find((e) => rowOf[e[0]] + e[1] === row && e[2] <= time && time <= e[2] + e[3]);
      label.textContent = found ? `${names[found[4]]}: ${durationText(found[3])}, at ${durationText(found[2])}` : "";
    });
    window.addEventListener("resize", draw);
    draw();
  }
})();
