"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const ROWS = 50;
  const NODES = 60;
  const HUES = [222, 152, 32, 280, 190, 340, 60, 250, 110, 10, 310, 172];

  // Every text goes through a text node: nothing of the model is ever parsed as HTML.
  function add(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== false) element.append(child);
    }
    return element;
  }
  const h = (tag, attributes = {}, ...children) => add(document.createElement(tag), attributes, children);
  const s = (tag, attributes = {}, ...children) =>
    add(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const at = (id) => document.getElementById(id);
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  function bytes(count) {
    if (count === null || count === undefined) return "–";
    for (const unit of ["B", "KiB", "MiB"]) {
      if (count < 1024) return `${count.toFixed(unit === "B" ? 0 : 1)} ${unit}`;
      count /= 1024;
    }
    return `${count.toFixed(1)} GiB`;
  }
  const micro = (gain) => (gain === null || gain === undefined ? "–" : `${gain.toFixed(1)} µs`);
  const millis = (value) => `${value.toFixed(value < 1 ? 3 : value < 10 ? 2 : 1)} ms`;
  const place = (location) => (location === "-" ? "" : location);
  const tail = (location) => location.split("/").slice(-2).join("/");

  function runs(names, locations) {
    const found = [];
    names.forEach((name, i) => {
      const location = place(locations[i] ?? "");
      const last = found[found.length - 1];
      if (last && last.name === name && last.location === location) last.count += 1;
      else found.push({ name, location, count: 1 });
    });
    return found;
  }
  const opLine = (run) =>
    h("div", { class: "ops" }, run.name, run.count > 1 && ` ×${run.count}`,
      run.location && h("span", { class: "dim", title: run.location }, `  ${tail(run.location)}`));

  const groups = report.decisions.filter((d) => d.taken && d.kind !== "rewrite");
  const refused = report.decisions.filter((d) => !d.taken);
  const passNames = [...new Set(report.decisions.map((d) => d.pass))];
  const hueOf = new Map(
    [...new Set(report.graph.nodes.filter((n) => n.match !== null).map((n) => n.name))]
      .map((name, i) => [name, HUES[i % HUES.length]]));

  function header() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const root = document.documentElement;
    root.dataset.theme = dark ? "dark" : "light";
    const flip = () => {
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    };
    const links = [["graph", "Graph"], ["passes", "Passes"], ["decisions", "Decisions"],
      ["reasons", "Reasons"], ["ir", "IR"]];
    at("top").append(h("div", { class: "bar" },
      h("h1", {}, report.title),
      h("nav", {}, links.filter(([id]) => at(id).childElementCount)
        .map(([id, text]) => h("a", { href: `#${id}` }, text))),
      h("button", { class: "button", onclick: flip, title: "Light or dark" }, "◐")));
    document.title = report.title;
  }

  function card(figure, label, note) {
    return h("div", { class: "card" }, h("div", { class: "figure" }, figure),
      h("div", { class: "label" }, label), note && h("div", { class: "label" }, note));
  }

  function summary() {
    const { stock, fused } = report.dispatches;
    const cards = [card(report.target, "target", `IREE ${report.iree}, mlirfuse ${report.version}`)];
    if (stock !== null && fused !== null) cards.push(card(`${stock} → ${fused}`, "dispatches, stock → fused"));
    else if (fused !== null) cards.push(card(fused, "dispatches, fused"));
    if (report.speedups.fused) {
      cards.push(card(`${report.speedups.fused.toFixed(2)}×`, "the speed of stock IREE",
        `${millis(report.timings.stock)} → ${millis(report.timings.fused)} a call, medians`));
    }
    const fired = new Set(groups.map((d) => d.pass)).size;
    cards.push(card(groups.length, "groups, each one kernel",
      `${plural(sum(groups.map((d) => d.ops.length)), "op")}, by ${fired} ${fired === 1 ? "pass" : "passes"}`));
    cards.push(card(refused.length, "candidates refused",
      `for ${plural(new Set(refused.map((d) => d.reason)).size, "reason")}`));
    cards.push(card(bytes(sum(groups.map((d) => d.bytes_saved ?? 0))), "memory traffic saved a call", "modelled"));
    const chips = report.options.map((o) =>
      h("span", { class: "chip", title: `default: ${JSON.stringify(o.default)}` }, `${o.name} = ${JSON.stringify(o.value)}`));
    at("summary").append(h("div", { class: "cards" }, cards),
      h("div", { class: "chips" },
        chips.length ? [h("span", { class: "dim" }, "Options that differ from the default:"), chips]
          : h("span", { class: "dim" }, "All options have their default.")));
  }

  function meters(entries, text) {
    const most = Math.max(...entries.map(([, value]) => value), 1e-9);
    return entries.map(([name, value]) =>
      h("div", { class: name === "fused" ? "meter own" : "meter" }, h("span", {}, name),
        h("i", { style: `width:${(100 * value / most).toFixed(2)}%` }), h("b", {}, text(value, name))));
  }

  function measured() {
    const halves = [];
    const counts = Object.entries(report.dispatches).filter(([, n]) => n !== null);
    if (Object.keys(report.timings).length) {
      halves.push(h("div", { class: "card" },
        h("h2", {}, "Time a call ", h("small", {}, "median, all sides measured in turn")),
        meters(Object.entries(report.timings), (ms, name) =>
          name !== "stock" && report.speedups[name]
            ? `${millis(ms)}, ${report.speedups[name].toFixed(2)}× the speed` : millis(ms))));
    }
    if (counts.length) {
      halves.push(h("div", { class: "card" }, h("h2", {}, "Dispatches ", h("small", {}, "kernels launched by a call")),
        meters(counts, (n) => String(n))));
    }
    if (halves.length) at("measured").append(h("div", { class: "halves" }, halves));
  }

  function passes() {
    const slowest = Math.max(...report.passes.map((p) => p.seconds), 1e-9);
    const rows = report.passes.map((p) => {
      const of = report.decisions.filter((d) => d.pass === p.name);
      const ours = p.rewrites !== null;
      const cell = (n) => h("td", { class: "n" }, ours ? String(n) : "–");
      return h("tr", { class: p.enabled ? "" : "off" }, h("td", { class: "mono" }, p.name),
        h("td", {}, p.enabled ? "on" : "off"), cell(p.rewrites),
        cell(of.filter((d) => !d.taken).length),
        h("td", { class: "n" }, ours ? bytes(sum(groups.filter((d) => d.pass === p.name).map((d) => d.bytes_saved ?? 0)) || null) : "–"),
        h("td", {}, h("span", { class: "meterlet", style: `width:${(90 * p.seconds / slowest).toFixed(1)}px` }),
          `${(p.seconds * 1e3).toFixed(1)} ms`));
    });
    if (!rows.length) return;
    at("passes").append(h("h2", {}, "Passes ", h("small", {}, "in the order in which they ran")),
      h("div", { class: "card scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "pass"), h("th", {}, "switch"), h("th", { class: "n" }, "applied"),
          h("th", { class: "n" }, "refused"), h("th", { class: "n" }, "traffic saved"), h("th", {}, "time of the pass"))),
        h("tbody", {}, rows))));
  }

  // --- decisions ------------------------------------------------------------------------------

  const filter = { outcome: "", pass: "", reason: "", q: "", sort: "gain_us", page: 0 };

  function readHash() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of ["outcome", "pass", "reason", "q", "sort"]) filter[name] = given.get(name) ?? (name === "sort" ? "gain_us" : "");
  }
  function writeHash() {
    const kept = Object.entries(filter).filter(([name, value]) => value && name !== "page");
    history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
  }
  const haystack = report.decisions.map((d) =>
    [d.pass, d.kind, d.function, d.reason ?? "", d.detail, ...d.ops, ...d.op_names].join("\n").toLowerCase());

  function chosen() {
    const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
    const found = report.decisions.filter((d, i) =>
      (!filter.outcome || (filter.outcome === "taken") === d.taken) &&
      (!filter.pass || d.pass === filter.pass) &&
      (!filter.reason || d.reason === filter.reason) &&
      words.every((word) => haystack[i].includes(word)));
    if (filter.sort !== "order") found.sort((a, b) => (b[filter.sort] ?? -1) - (a[filter.sort] ?? -1));
    return found;
  }

  function opsCell(d) {
    const lines = runs(d.op_names, d.ops);
    return h("td", {}, lines.slice(0, 2).map(opLine),
      lines.length > 2 && h("div", { class: "dim" }, `and ${lines.length - 2} more`));
  }

  function explanation(d) {
    const parts = [];
    if (d.reason) {
      parts.push(h("div", {}, report.reasons[d.reason].text, d.detail && h("span", { class: "ops" }, `: ${d.detail}`)),
        h("div", { class: "hint" }, `To fuse it: ${report.reasons[d.reason].hint}.`));
    }
    if (d.taken && d.match !== null) {
      parts.push(h("div", { class: "hint" }, "To leave it out: ",
        h("code", {}, `--disable-pass=${d.pass}@match=${d.match}`)));
    }
    return parts;
  }

  function decisionRow(d) {
    let opened = null;
    const row = h("tr", { class: "row", tabindex: "0" },
      h("td", {}, h("span", { class: d.taken ? "pill yes" : "pill no" }, d.taken ? "taken" : d.reason ?? "refused")),
      h("td", { class: "mono" }, d.pass, d.match !== null && h("span", { class: "dim" }, ` #${d.match}`)),
      h("td", {}, d.kind), opsCell(d),
      h("td", { class: "n" }, bytes(d.bytes_saved || null)), h("td", { class: "n" }, micro(d.gain_us || null)));
    const toggle = () => {
      if (opened) {
        opened.remove();
        opened = null;
        return;
      }
      opened = h("tr", { class: "more" }, h("td", { colspan: "6" }, explanation(d),
        h("div", { class: "label" }, `in @${d.function}`), runs(d.op_names, d.ops).map(opLine)));
      row.after(opened);
    };
    row.addEventListener("click", toggle);
    row.addEventListener("keydown", (event) => event.key === "Enter" && toggle());
    return row;
  }

  function decisions() {
    if (!report.decisions.length) {
      at("decisions").append(h("h2", {}, "Decisions"),
        h("div", { class: "card dim" }, "No pass considered any op of this module."));
      return;
    }
    const body = h("tbody");
    const count = h("span");
    const back = h("button", { class: "button", onclick: () => turn(-1) }, "‹");
    const forth = h("button", { class: "button", onclick: () => turn(1) }, "›");
    const option = (value, text = value) => h("option", { value }, text);
    const reasons = [...new Set(refused.map((d) => d.reason))].filter(Boolean).sort();
    const fields = {
      outcome: h("select", { "aria-label": "outcome" }, option("", "taken and refused"), option("taken"), option("refused")),
      pass: h("select", { "aria-label": "pass" }, option("", "every pass"), passNames.map((n) => option(n))),
      reason: h("select", { "aria-label": "reason" }, option("", "every reason"), reasons.map((n) => option(n))),
      q: h("input", { type: "search", placeholder: "Search ops, locations, details", "aria-label": "search" }),
    };
    function draw() {
      const found = chosen();
      const pages = Math.max(1, Math.ceil(found.length / ROWS));
      filter.page = Math.min(filter.page, pages - 1);
      const first = filter.page * ROWS;
      body.replaceChildren(...found.slice(first, first + ROWS).map(decisionRow));
      count.textContent = found.length
        ? `${first + 1}–${Math.min(first + ROWS, found.length)} of ${found.length}` : "nothing matches";
      count.dataset.found = String(found.length);
      back.disabled = filter.page === 0;
      forth.disabled = filter.page === pages - 1;
      for (const [name, field] of Object.entries(fields)) if (field.value !== filter[name]) field.value = filter[name];
    }
    function turn(by) {
      filter.page += by;
      draw();
    }
    function change(changes) {
      Object.assign(filter, changes, { page: 0 });
      writeHash();
      draw();
    }
    for (const [name, field] of Object.entries(fields)) {
      field.addEventListener("input", () => change({ [name]: field.value }));
    }
    const sortable = (key, text) => h("th", { class: "n" },
      h("button", { onclick: () => change({ sort: filter.sort === key ? "order" : key }), title: "sort by this, or by the order in which they were considered" }, `${text} ↕`));
    count.id = "found";
    body.id = "decision-rows";
    at("decisions").append(h("h2", {}, "Decisions ", h("small", {}, "every fusion considered; click one for the reason")),
      h("div", { class: "card scroll" },
        h("div", { class: "filters" }, fields.q, fields.outcome, fields.pass, fields.reason),
        h("table", {}, h("thead", {}, h("tr", {}, ["outcome", "pass", "kind", "ops"].map((n) => h("th", {}, n)),
          sortable("bytes_saved", "saved"), sortable("gain_us", "gain"))), body),
        h("div", { class: "pager" }, back, forth, count)));
    addEventListener("hashchange", () => {
      if (location.hash.includes("=")) {
        readHash();
        draw();
      }
    });
    if (location.hash.includes("=")) readHash();
    draw();
    return change;
  }

  function reasons(change) {
    const counts = new Map();
    for (const d of refused) if (d.reason) counts.set(d.reason, (counts.get(d.reason) ?? 0) + 1);
    if (!counts.size) return;
    const rows = [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => h("tr", {},
      h("td", {}, h("button", { class: "button mono", onclick: () => {
        change({ outcome: "refused", reason: code, pass: "", q: "" });
        at("decisions").scrollIntoView();
      } }, code)),
      h("td", { class: "n" }, String(count)), h("td", {}, report.reasons[code].text),
      h("td", { class: "hint" }, report.reasons[code].hint)));
    at("reasons").append(h("h2", {}, "Reasons ", h("small", {}, "why fusions were not made, and what would change that")),
      h("div", { class: "card scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "reason"),
        h("th", { class: "n" }, "refused"), h("th", {}, "meaning"), h("th", {}, "to fuse it"))), h("tbody", {}, rows))));
  }

  // --- graph ----------------------------------------------------------------------------------

  const MIDDLE = 2, WIDTH = 230, HEIGHT = 46, GAP_X = 26, GAP_Y = 40, LANE = 12, MARGIN = 20;

  // Layers by longest path; an edge over several layers gets a lane in each, so that no edge
  // crosses a box.
  function layout(nodes, edges) {
    const cells = nodes.map((node) => ({ node, width: WIDTH, above: [], below: [], layer: 0, x: 0 }));
    for (const e of edges) cells[e.target].layer = Math.max(cells[e.target].layer, cells[e.source].layer + 1);
    // A node that nothing on the page feeds stands just above its first reader.
    for (let i = nodes.length - 1; i >= 0; i -= 1) {
      const readers = edges.filter((e) => e.source === i).map((e) => cells[e.target].layer);
      if (readers.length && !edges.some((e) => e.target === i)) cells[i].layer = Math.min(...readers) - 1;
    }
    const layers = [];
    const put = (cell) => (layers[cell.layer] ??= []).push(cell);
    cells.forEach(put);
    const routes = edges.map((edge) => {
      const route = [cells[edge.source]];
      for (let layer = cells[edge.source].layer + 1; layer < cells[edge.target].layer; layer += 1) {
        const lane = { node: null, width: LANE, above: [], below: [], layer, x: 0 };
        put(lane);
        route.push(lane);
      }
      route.push(cells[edge.target]);
      for (const lane of route.slice(1, -1)) lane.ends = [route[0], route[route.length - 1]];
      for (let i = 0; i + 1 < route.length; i += 1) {
        route[i].below.push(route[i + 1]);
        route[i + 1].above.push(route[i]);
      }
      return { edge, route };
    });
    // Boxes pull boxes and tend to the middle; lanes run straight between the ends of their edge.
    const weight = (a, b) => (a.node && b.node ? 8 : 1);
    const spread = (row, neighbours, reorder) => {
      row.forEach((cell, i) => {
        const near = cell.ends ?? neighbours(cell);
        const pull = sum(near.map((other) => weight(cell, other) * other.x));
        cell.wanted = near.length ? pull / (sum(near.map((other) => weight(cell, other))) + MIDDLE) : cell.x;
        cell.order = i;
      });
      if (reorder) row.sort((a, b) => a.wanted - b.wanted || a.order - b.order);
      const gap = (a, b) => (a.width + b.width) / 2 + (a.node && b.node ? GAP_X : 4);
      row.forEach((cell, i) => {
        cell.x = i ? Math.max(cell.wanted, row[i - 1].x + gap(row[i - 1], cell)) : cell.wanted;
      });
      const heavy = row.filter((c) => c.node);
      const drift = heavy.length ? sum(heavy.map((c) => c.x - c.wanted)) / heavy.length : 0;
      for (const cell of row) cell.x -= drift;
    };
    layers.forEach((row) => row.forEach((cell, i) => {
      cell.x = (i - (row.length - 1) / 2) * (WIDTH + GAP_X);
    }));
    for (let sweep = 0; sweep < 6; sweep += 1) {
      layers.forEach((row) => spread(row, (cell) => cell.above, true));
      [...layers].reverse().forEach((row) => spread(row, (cell) => cell.below, true));
    }
    for (let sweep = 0; sweep < 30; sweep += 1) {
      const both = (cell) => [...cell.above, ...cell.below];
      layers.forEach((row) => spread(row, both, false));
      [...layers].reverse().forEach((row) => spread(row, both, false));
    }
    const all = layers.flat();
    const left = Math.min(...all.map((c) => c.x - c.width / 2));
    for (const cell of all) {
      cell.x += MARGIN - left;
      cell.y = MARGIN + cell.layer * (HEIGHT + GAP_Y);
    }
    return {
      cells, routes,
      width: Math.max(...all.map((c) => c.x + c.width / 2)) + MARGIN,
      height: MARGIN * 2 + layers.length * (HEIGHT + GAP_Y) - GAP_Y,
    };
  }

  function path(route) {
    let d = `M${route[0].x},${route[0].y + HEIGHT}`;
    for (let i = 1; i < route.length; i += 1) {
      const from = route[i - 1], to = route[i];
      const y0 = from.y + HEIGHT, y1 = to.y;
      d += `C${from.x},${y0 + GAP_Y / 2} ${to.x},${y1 - GAP_Y / 2} ${to.x},${y1}`;
      if (!to.node) d += `L${to.x},${to.y + HEIGHT}`;
    }
    return d;
  }

  const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  function graph() {
    const { nodes, edges } = report.graph;
    if (!nodes.length) return;
    const byMatch = new Map(groups.map((d) => [`${d.function} ${d.pass} ${d.match}`, d]));
    const decisionOf = (n) => byMatch.get(`${n.function} ${n.name} ${n.match}`);
    const opsOf = (n) => {
      const d = decisionOf(n);
      return d ? { names: d.op_names, locations: d.ops } : { names: [n.name], locations: [n.location] };
    };
    const into = nodes.map(() => []);
    for (const e of edges) into[e.target].push(e);
    const atLocation = new Map();
    nodes.forEach((n, i) => {
      for (const l of opsOf(n).locations) if (l !== "-") (atLocation.get(l) ?? atLocation.set(l, new Set()).get(l)).add(i);
    });
    // A refused candidate is drawn where its ops are in a few nodes: more would be a guess.
    const dotted = [];
    const seen = new Set();
    for (const d of refused) {
      const touched = [...new Set(d.ops.flatMap((l) => [...(atLocation.get(l) ?? [])]))].sort((a, b) => a - b);
      if (touched.length < 2 || touched.length > 4) continue;
      for (let i = 0; i + 1 < touched.length; i += 1) {
        const key = `${touched[i]} ${touched[i + 1]} ${d.pass} ${d.reason}`;
        if (!seen.has(key)) dotted.push({ source: touched[i], target: touched[i + 1], decision: d });
        seen.add(key);
      }
    }
    const state = { page: 0, chosen: null, refused: false, single: true };
    const drawing = h("div", { class: "drawing" });
    const side = h("div", { class: "side", id: "node" });
    const where = h("span");
    const back = h("button", { class: "button", onclick: () => turn(-1) }, "‹ earlier");
    const forth = h("button", { class: "button", onclick: () => turn(1) }, "later ›");
    function turn(by) {
      state.page += by;
      draw();
      drawing.scrollTo(0, 0);
    }

    // With single ops hidden, an edge leads through them to the next group.
    function visible() {
      if (state.single) return { kept: nodes.map((_, i) => i), links: edges };
      const feeds = nodes.map(() => new Map());
      const links = [];
      for (let i = 0; i < nodes.length; i += 1) {
        for (const e of into[i]) {
          const from = nodes[e.source].match !== null ? new Map([[e.source, e.size]]) : feeds[e.source];
          for (const [source, size] of from) feeds[i].set(source, size);
        }
        if (nodes[i].match !== null) {
          for (const [source, size] of feeds[i]) links.push({ source, target: i, size });
        }
      }
      return { kept: nodes.map((_, i) => i).filter((i) => nodes[i].match !== null), links };
    }

    function box(cell, index) {
      const n = cell.node;
      const d = decisionOf(n);
      const grouped = n.match !== null;
      const first = place(n.location).split("/").pop();
      const under = grouped ? `${plural(d?.ops.length ?? 0, "op")}${d?.bytes_saved ? ` · saves ${bytes(d.bytes_saved)}` : ""}` : first;
      const pick = () => select(index);
      return s("g", {
        class: `node${grouped ? "" : " single"}${state.chosen === index ? " chosen" : ""}`,
        style: grouped ? `--hue:${hueOf.get(n.name)}` : undefined,
        transform: `translate(${cell.x - WIDTH / 2},${cell.y})`, tabindex: "0", role: "button", onclick: pick,
        onkeydown: (event) => event.key === "Enter" && pick(),
      }, s("title", {}, `${n.name}${grouped ? ` match ${n.match}` : ""}\n${[...new Set(opsOf(n).locations)].slice(0, 6).join("\n")}`),
      s("rect", { width: WIDTH, height: HEIGHT, rx: 7 }),
      s("text", { x: 10, y: 19 }, short(grouped ? `${n.name} #${n.match}` : n.name, 32)),
      s("text", { x: 10, y: 36, class: "dim" }, short(under, 36)));
    }

    function draw() {
      const { kept, links } = visible();
      const pages = Math.max(1, Math.ceil(kept.length / NODES));
      state.page = Math.max(0, Math.min(state.page, pages - 1));
      const shown = kept.slice(state.page * NODES, (state.page + 1) * NODES);
      const local = new Map(shown.map((index, i) => [index, i]));
      const inside = links.filter((e) => local.has(e.source) && local.has(e.target))
        .map((e) => ({ source: local.get(e.source), target: local.get(e.target), size: e.size, from: e.source, to: e.target }));
      const plan = layout(shown.map((i) => nodes[i]), inside);
      const arrow = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
        s("path", { d: "M0,0L8,4L0,8z", class: "edge", style: "fill:var(--dim);stroke:none" }));
      const lines = plan.routes.map(({ edge, route }) => s("path", {
        class: edge.from === state.chosen || edge.to === state.chosen ? "edge lit" : "edge",
        d: path(route), "marker-end": "url(#arrow)",
      }, s("title", {}, `${bytes(edge.size)} from ${nodes[edge.from].name} to ${nodes[edge.to].name}`)));
      const dots = !state.refused ? [] : dotted.filter((e) => local.has(e.source) && local.has(e.target)).map((e) => {
        const a = plan.cells[local.get(e.source)], b = plan.cells[local.get(e.target)];
        const bend = Math.max(a.x, b.x) + WIDTH / 2 + 24;
        const ya = a.y + HEIGHT / 2, yb = b.y + HEIGHT / 2;
        return s("path", { class: "refused", d: `M${a.x + WIDTH / 2},${ya}C${bend},${ya} ${bend},${yb} ${b.x + WIDTH / 2},${yb}` },
          s("title", {}, `${e.decision.pass}: ${report.reasons[e.decision.reason]?.text ?? "refused"}${e.decision.detail ? `: ${e.decision.detail}` : ""}`));
      });
      drawing.replaceChildren(s("svg", { width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}` },
        s("defs", {}, arrow), lines, plan.cells.map((cell, i) => box(cell, shown[i])), dots));
      where.textContent = pages > 1
        ? `${state.page * NODES + 1}–${state.page * NODES + shown.length} of ${kept.length} in program order`
        : plural(kept.length, "node");
      back.hidden = forth.hidden = pages === 1;
      back.disabled = state.page === 0;
      forth.disabled = state.page === pages - 1;
    }

    function neighbours(title, list) {
      if (!list.length) return null;
      return [h("h4", {}, title), h("ul", {}, list.slice(0, 12).map(([i, size]) => h("li", {},
        h("a", { href: "#graph", onclick: (event) => {
          event.preventDefault();
          select(i);
          drawing.querySelector(".chosen").scrollIntoView({ block: "nearest", inline: "nearest" });
        } },
          nodes[i].name, nodes[i].match !== null && ` #${nodes[i].match}`),
        h("span", { class: "dim" }, `  ${bytes(size)}`))))];
    }

    function select(index) {
      state.chosen = index;
      const { kept } = visible();
      if (kept.includes(index)) state.page = Math.floor(kept.indexOf(index) / NODES);
      const n = nodes[index];
      const d = decisionOf(n);
      const own = new Set(opsOf(n).locations.filter((l) => l !== "-"));
      const others = refused.filter((r) => r.function === n.function && r.ops.some((l) => own.has(l)));
      side.replaceChildren();
      add(side, {}, [
        h("h3", {}, n.name, n.match !== null && h("span", { class: "dim" }, ` #${n.match}`)),
        h("div", { class: "dim" }, `in @${n.function}`),
        d && h("div", {}, `saves ${bytes(d.bytes_saved)}, gains ${micro(d.gain_us)} (modelled)`),
        d && explanation(d),
        h("h4", {}, "Ops"), runs(opsOf(n).names, opsOf(n).locations).map(opLine),
        neighbours("Reads from", into[index].map((e) => [e.source, e.size])),
        neighbours("Read by", edges.filter((e) => e.source === index).map((e) => [e.target, e.size])),
        others.length > 0 && [
          h("h4", {}, `Refused candidates from the same source lines (${others.length})`),
          h("div", { class: "stack" }, alike(others).slice(0, 8).map(({ first, count }) => h("div", {},
            h("span", { class: "pill no" }, first.reason ?? "refused"), " ",
            h("span", { class: "mono" }, first.pass), count > 1 && ` ×${count}`, explanation(first))))],
      ]);
      draw();
    }

    function alike(decisions) {
      const kinds = new Map();
      for (const d of decisions) {
        const key = `${d.pass} ${d.reason} ${d.detail}`;
        if (kinds.has(key)) kinds.get(key).count += 1;
        else kinds.set(key, { first: d, count: 1 });
      }
      return [...kinds.values()];
    }

    const check = (name, text) => h("label", {}, h("input", {
      type: "checkbox", checked: state[name] ? "" : undefined,
      onchange: (event) => { state[name] = event.target.checked; draw(); },
    }), ` ${text}`);
    const uses = new Map();
    for (const n of nodes) if (n.match !== null) uses.set(n.name, (uses.get(n.name) ?? 0) + 1);
    at("graph").append(h("h2", {}, "Fusion graph ", h("small", {}, "groups as boxes, tensors as arrows")),
      h("div", { class: "card scroll" },
        h("div", { class: "pager" }, back, forth, where, h("span", { style: "flex:1" }),
          nodes.some((n) => n.match === null) && check("single", "ops in no group"),
          dotted.length > 0 && check("refused", "refused fusions")),
        h("div", { class: "canvas", style: "border-top:1px solid var(--line)" }, drawing, side),
        h("div", { class: "legend" }, [...uses].map(([name, count]) =>
          h("span", {}, h("i", { style: `--hue:${hueOf.get(name)}` }), `${name} ×${count}`)))));
    const start = nodes.findIndex((n) => n.match !== null);
    select(start < 0 ? 0 : start);
    const middle = drawing.querySelector(".chosen").getBoundingClientRect();
    drawing.scrollLeft = middle.left + middle.width / 2 - drawing.getBoundingClientRect().left - drawing.clientWidth / 2;
  }

  // --- IR -------------------------------------------------------------------------------------

  function lazily(title, fill) {
    const box = h("details", { class: "card", style: "padding:0" }, h("summary", {}, title));
    box.addEventListener("toggle", () => {
      if (box.open && box.childElementCount === 1) box.append(fill());
    });
    return box;
  }

  function diff(lines) {
    const kinds = { "+": "add", "-": "del", "@": "at" };
    return h("pre", {}, lines.map((line) => h("span", { class: kinds[line[0]] ?? "" }, `${line}\n`)));
  }

  function stepper() {
    const view = h("div");
    const pick = h("select", { "aria-label": "step" }, report.steps.map((step, i) => h("option", { value: i }, `${i + 1}. ${step.title}`)));
    const show = (i) => {
      pick.value = String(Math.max(0, Math.min(i, report.steps.length - 1)));
      view.replaceChildren(diff(report.steps[Number(pick.value)].diff));
    };
    pick.addEventListener("change", () => show(Number(pick.value)));
    const move = (by) => () => show(Number(pick.value) + by);
    show(0);
    return h("div", {}, h("div", { class: "filters" }, h("button", { class: "button", onclick: move(-1) }, "‹"), pick,
      h("button", { class: "button", onclick: move(1) }, "›")), view);
  }

  function ir() {
    const parts = [];
    if (report.steps.length) parts.push(lazily("What each pass changed, in order", stepper));
    for (const [title, text] of [["IR before the passes", report.before], ["IR after the passes", report.after]]) {
      if (text) parts.push(lazily(title, () => h("pre", {}, text)));
    }
    if (parts.length) at("ir").append(h("h2", {}, "IR"), h("div", { class: "stack" }, parts));
  }

  summary();
  measured();
  graph();
  passes();
  reasons(decisions());
  ir();
  header();
  document.documentElement.dataset.ready = "true";
})();
