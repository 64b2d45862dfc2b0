"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const ROWS = 50;
  const HUES = [222, 152, 32, 280, 190, 340, 60, 250, 110, 10, 310, 172];

  // All text becomes text nodes: no string of the model is ever parsed as HTML.
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
  const shownLocation = (location) => (location === "-" ? "" : location);
  const tail = (location) => location.split("/").slice(-2).join("/");

  function runs(names, locations) {
    const found = [];
    names.forEach((name, i) => {
      const location = shownLocation(locations[i] ?? "");
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
    [...new Set([...report.graph.groups.map((g) => g.pass_name), ...report.kernels.map((k) => k.code)])]
      .map((name, i) => [name, HUES[i % HUES.length]]));

  function header() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const root = document.documentElement;
    root.dataset.theme = dark ? "dark" : "light";
    const flip = () => {
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    };
    const links = [["kernels", "Kernels"], ["stock", "Stock"], ["graph", "Graph"],
      ["boundaries", "Boundaries"], ["passes", "Passes"], ["decisions", "Decisions"],
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
    if (report.kernels.length) {
      const ours = report.kernels.filter((k) => k.code !== "iree").length;
      cards.push(card(report.kernels.length, "kernels of the final program", `code of mlirfuse in ${ours}, of IREE in ${report.kernels.length - ours}`));
    }
    const fired = new Set(groups.map((d) => d.pass)).size;
    cards.push(card(groups.length, "groups of our passes, each one kernel",
      `${plural(sum(groups.map((d) => d.ops.length)), "op")}, by ${fired} ${fired === 1 ? "pass" : "passes"}`));
    cards.push(card(refused.length, "candidates refused",
      `for ${plural(new Set(refused.map((d) => d.reason)).size, "reason")}`));
    cards.push(card(bytes(report.savings.bytes), "memory traffic saved a call", "against stock IREE"));
    const chips = report.options.map((o) =>
      h("span", { class: "chip", title: `${report.switches[o.name] ?? o.name}\ndefault: ${JSON.stringify(o.default)}` },
        `${o.name} = ${JSON.stringify(o.value)}`));
    at("summary").append(h("div", { class: "cards" }, cards),
      h("div", { class: "chips" },
        chips.length ? [h("span", { class: "dim" }, "Options that differ from the default:"), chips]
          : h("span", { class: "dim" }, "All options have their default.")));
  }

  function meters(entries, text) {
    const longest = Math.max(...entries.map(([, value]) => value), 1e-9);
    return entries.map(([name, value]) =>
      h("div", { class: name === "fused" ? "meter own" : "meter" }, h("span", {}, name),
        h("i", { style: `width:${(100 * value / longest).toFixed(2)}%` }), h("b", {}, text(value, name))));
  }

  function measured() {
    const cards = [];
    const counts = Object.entries(report.dispatches).filter(([, n]) => n !== null);
    if (Object.keys(report.timings).length) {
      cards.push(h("div", { class: "card" },
        h("h2", {}, "Time a call ", h("small", {}, "median, programs measured in turns")),
        meters(Object.entries(report.timings), (ms, name) =>
          name !== "stock" && report.speedups[name]
            ? `${millis(ms)}, ${report.speedups[name].toFixed(2)}× the speed` : millis(ms))));
    }
    if (counts.length) {
      cards.push(h("div", { class: "card" }, h("h2", {}, "Dispatches ", h("small", {}, "kernels launched by a call")),
        meters(counts.map(([name, n]) => [name === "kernels" ? "code of ours" : name, n]), (n) => String(n))));
    }
    if (cards.length) at("measured").append(h("div", { class: "halves" }, cards));
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
        h("td", { class: "n" }, ours ? bytes(sum(groups.filter((d) => d.pass === p.name).map((d) => d.saving.bytes ?? 0)) || null) : "–"),
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
    const value = (d) => (filter.sort === "bytes_saved" ? d.saving.bytes : d[filter.sort]) ?? -1;
    if (filter.sort !== "order") found.sort((a, b) => value(b) - value(a));
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
      parts.push(h("div", { class: "hint" }, "To disable it: ",
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
      h("td", { class: "n" }, bytes(d.saving.bytes || null)), h("td", { class: "n" }, d.saving.time || "–"));
    const toggle = () => {
      if (opened) {
        opened.remove();
        opened = null;
        return;
      }
      opened = h("tr", { class: "more" }, h("td", { colspan: "6" }, explanation(d),
        h("div", { class: "label" }, d.function ? `in @${d.function}` : "in the whole module"), runs(d.op_names, d.ops).map(opLine)));
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
      h("button", { onclick: () => change({ sort: filter.sort === key ? "order" : key }), title: "sort by this column, or by the order of consideration" }, `${text} ↕`));
    count.id = "found";
    body.id = "decision-rows";
    at("decisions").append(h("h2", {}, "Decisions ", h("small", {}, "every fusion considered; click one for the reason")),
      report.savings.notes.map((line) => h("p", { class: "dim" }, line)),
      h("div", { class: "card scroll" },
        h("div", { class: "filters" }, fields.q, fields.outcome, fields.pass, fields.reason),
        h("table", {}, h("thead", {}, h("tr", {}, ["outcome", "pass", "kind", "ops"].map((n) => h("th", {}, n)),
          sortable("bytes_saved", "traffic saved"), sortable("gain_us", "time saved"))), body),
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
    at("reasons").append(h("h2", {}, "Reasons ", h("small", {}, "why candidates were refused, and how to fuse them")),
      h("div", { class: "card scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "reason"),
        h("th", { class: "n" }, "refused"), h("th", {}, "meaning"), h("th", {}, "to fuse it"))), h("tbody", {}, rows))));
  }

  /*KERNELS*/

  /*STOCK*/

  /*LAYOUT*/

  /*GRAPH*/

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
    if (report.steps?.length) parts.push(lazily("Changes of each pass, in order", stepper));
    for (const [title, text] of [["IR before the passes", report.before], ["IR after the passes", report.after]]) {
      if (text) parts.push(lazily(title, () => h("pre", {}, text)));
    }
    if (!parts.length && report.steps) parts.push(h("div", { class: "card dim" }, "No pass changed the module."));
    if (parts.length) at("ir").append(h("h2", {}, "IR"), h("div", { class: "stack" }, parts));
  }

  summary();
  measured();
  kernels();
  stock();
  graph();
  boundaries();
  passes();
  reasons(decisions());
  ir();
  header();
  document.documentElement.dataset.ready = "true";
})();
