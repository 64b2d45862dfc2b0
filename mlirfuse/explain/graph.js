  // --- graph ----------------------------------------------------------------------------------

  const MAX_BOXES = 60, MAX_BOXES_OPENED = 30, MAX_LISTED = 12;
  const CENTER_WEIGHT = 2, WIDTH = 230, HEIGHT = 46, GAP_X = 26, GAP_Y = 46, LANE = 12, MARGIN = 26;

  // Layered layout: rows by longest path, since every edge leads to a later node. An edge that spans
  // several rows gets a lane in each, so that no edge crosses a box.
  function layout(nodes, edges) {
    const cells = nodes.map((node) => ({ node, width: WIDTH, above: [], below: [], layer: 0, x: 0 }));
    for (const e of [...edges].sort((a, b) => a.target - b.target)) cells[e.target].layer = Math.max(cells[e.target].layer, cells[e.source].layer + 1);
    // A node without producers on the page is placed in the row above its first user.
    for (let i = nodes.length - 1; i >= 0; i -= 1) {
      const users = edges.filter((e) => e.source === i).map((e) => cells[e.target].layer);
      if (users.length && !edges.some((e) => e.target === i)) cells[i].layer = Math.min(...users) - 1;
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
    // Barycenter heuristic: boxes attract boxes and the center; lanes run straight between the ends of
    // their edge.
    const weight = (a, b) => (a.node && b.node ? 8 : 1);
    const spread = (row, neighbors, reorder) => {
      row.forEach((cell, i) => {
        const near = cell.ends ?? neighbors(cell);
        const pull = sum(near.map((other) => weight(cell, other) * other.x));
        cell.wanted = near.length ? pull / (sum(near.map((other) => weight(cell, other))) + CENTER_WEIGHT) : cell.x;
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
    const { ops, groups: formed, edges, steps } = report.graph;
    if (!ops.length) return;
    const byMatch = new Map(groups.map((d) => [`${d.function} ${d.pass} ${d.match}`, d]));
    const decisionOf = (g) => byMatch.get(`${formed[g].function} ${formed[g].pass_name} ${formed[g].match}`);
    const kernelOf = (g) => (formed[g].kernel === null ? undefined : report.kernels[formed[g].kernel]);
    const titleOf = (g) => (g.pass_name === "iree" ? report.kernels[g.kernel].name : `${g.pass_name} #${g.match}`);
    const membersOf = formed.map(() => []);
    ops.forEach((op, i) => op.group !== null && membersOf[op.group].push(i));
    const formedAt = formed.map(() => 0);
    steps.forEach((step, i) => { if (step.group !== null) formedAt[step.group] = i + 1; });
    const functions = new Set(ops.map((op) => op.function));
    const pathOf = (item) => [functions.size > 1 ? `@${item.function}` : "", ...item.layer.split("/")].filter(Boolean);
    const state = { step: steps.length, page: 0, chosen: null, refused: true, single: true, closed: new Set() };

    // A unit is a group that is formed by the current step, or an op in no group.
    const group = (g) => ({ key: `g${g}`, kind: "group", group: g, path: pathOf(formed[g]), ops: membersOf[g], function: formed[g].function, title: titleOf(formed[g]) });
    const single = (i) => ({ key: `o${i}`, kind: "op", op: i, path: pathOf(ops[i]), ops: [i], function: ops[i].function, title: ops[i].name });
    function units() {
      const made = new Map();
      ops.forEach((op, i) => {
        const grouped = op.group !== null && formedAt[op.group] <= state.step;
        const key = grouped ? `g${op.group}` : `o${i}`;
        if (!made.has(key)) made.set(key, grouped ? group(op.group) : single(i));
      });
      return [...made.values()];
    }
    const prefixes = (path) => path.map((_, i) => path.slice(0, i + 1).join("/"));
    const hiding = (unit) => prefixes(unit.path).find((prefix) => state.closed.has(prefix));
    function view() {
      const boxes = new Map();
      for (const unit of units()) {
        const layer = hiding(unit);
        const key = layer === undefined ? unit.key : `l${layer}`;
        if (!boxes.has(key)) {
          boxes.set(key, layer === undefined ? unit
            : { key, kind: "layer", path: layer.split("/"), ops: [], units: [], function: unit.function, title: layer });
        }
        if (layer !== undefined) {
          boxes.get(key).ops.push(...unit.ops);
          boxes.get(key).units.push(unit);
        }
      }
      return [...boxes.values()].sort((a, b) => a.ops[0] - b.ops[0]);
    }
    // Opens layers from the outside in, one depth at a time, while the drawing stays small.
    function openLayers() {
      for (const unit of units()) for (const prefix of prefixes(unit.path)) state.closed.add(prefix);
      for (;;) {
        const before = view();
        const layers = before.filter((box) => box.kind === "layer");
        if (!layers.length) return;
        const depth = Math.min(...layers.map((box) => box.path.length));
        const next = layers.filter((box) => box.path.length === depth);
        for (const box of next) state.closed.delete(box.title);
        const after = view().length;
        if (after > MAX_BOXES_OPENED && after > before.length && before.length > 1) {
          for (const box of next) state.closed.add(box.title);
          return;
        }
      }
    }

    // Links between boxes: the tensors between them, and the decisions that refused to fuse them.
    function links(boxes) {
      const owner = new Map();
      boxes.forEach((box, n) => box.ops.forEach((i) => owner.set(i, n)));
      const hidden = (n) => boxes[n].kind === "op" && !state.single;
      const found = new Map();
      const link = (source, target) => {
        const key = `${source} ${target}`;
        if (!found.has(key)) found.set(key, { source, target, tensors: new Map(), decisions: new Set() });
        return found.get(key);
      };
      const feeds = boxes.map(() => new Map());
      const order = edges.map((e) => ({ e, source: owner.get(e.source), target: owner.get(e.target) }))
        .filter(({ source, target }) => source !== target).sort((a, b) => a.target - b.target);
      for (const { e, source, target } of order) {
        const size = ops[e.source].outputs[e.output].size;
        const tensors = hidden(source) ? feeds[source] : new Map([[`${e.source} ${e.output}`, { size, source }]]);
        for (const [tensor, from] of tensors) {
          if (hidden(target)) feeds[target].set(tensor, from);
          else if (from.source !== target) link(from.source, target).tensors.set(tensor, from.size);
        }
      }
      for (const r of report.graph.refused) {
        const source = owner.get(r.source), target = owner.get(r.target);
        if (source === target || hidden(source) || hidden(target)) continue;
        const kept = found.get(`${source} ${target}`) ?? found.get(`${target} ${source}`) ?? link(source, target);
        kept.decisions.add(r.decision);
      }
      return [...found.values()];
    }
    const passed = (l) => {
      const sizes = [...l.tensors.values()];
      return sizes.includes(null) ? null : sum(sizes);
    };

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

    function box(cell) {
      const b = cell.node;
      const d = b.kind === "group" ? decisionOf(b.group) : null;
      const time = b.kind === "group" ? kernelOf(b.group)?.measured : undefined;
      const under = b.kind === "group" ? [plural(d?.ops.length ?? b.ops.length, "op"), time ? `${micro(time.median_us)}, ${percent(time.share)}` : d?.saving.bytes && `saves ${bytes(d.saving.bytes)}`].filter(Boolean).join(" · ")
        : b.kind === "op" ? shownLocation(ops[b.op].location).split("/").pop()
          : contents(b);
      const pick = () => select(b.key);
      return s("g", {
        class: `node ${b.kind}${b.kind === "op" ? " single" : ""}${time ? " timed" : ""}${state.chosen === b.key ? " chosen" : ""}`, "data-key": b.key,
        style: b.kind === "group" ? `--hue:${hueOf.get(formed[b.group].pass_name)}${time ? `;--heat:${heat(time.share)}` : ""}` : undefined,
        transform: `translate(${cell.x - WIDTH / 2},${cell.y})`, tabindex: "0", role: "button", onclick: pick,
        ondblclick: () => b.kind === "layer" && open(b.title),
        onkeydown: (event) => event.key === "Enter" && pick(),
      }, s("title", {}, [b.title, b.path.join("/"), ...new Set(b.ops.map((i) => ops[i].location))].slice(0, 8).join("\n")),
      b.kind === "layer" && s("rect", { x: 4, y: 4, width: WIDTH, height: HEIGHT, rx: 7 }),
      s("rect", { width: WIDTH, height: HEIGHT, rx: 7 }),
      s("text", { x: 10, y: 19 }, short(b.kind === "layer" ? b.path.slice(-2).join("/") : b.title, 32)),
      s("text", { x: 10, y: 36, class: "dim" }, short(under, 36)));
    }
    function contents(b) {
      const inside = b.units.filter((unit) => unit.kind === "group").length;
      return [inside && plural(inside, "group"), b.units.length > inside && plural(b.units.length - inside, "op")].filter(Boolean).join(", ");
    }

    function arrow(l, boxes, route, cells) {
      const a = cells[l.from], b = cells[l.to];
      const kept = state.refused && l.decisions.size > 0;
      const lit = boxes[l.source].key === state.chosen || boxes[l.target].key === state.chosen;
      const bend = Math.max(a.x, b.x) + WIDTH / 2 + 24, ya = a.y + HEIGHT / 2, yb = b.y + HEIGHT / 2;
      const d = route ? path(route) : `M${a.x + WIDTH / 2},${ya}C${bend},${ya} ${bend},${yb} ${b.x + WIDTH / 2},${yb}`;
      const reasons = [...l.decisions].map((n) => report.decisions[n]);
      const size = l.tensors.size ? `${bytes(passed(l))} from ${boxes[l.source].title} to ${boxes[l.target].title}` : "";
      const refusalLines = distinct(reasons).map(({ first }) => `${first.pass}: ${report.reasons[first.reason]?.text ?? "refused"}${first.detail ? `: ${first.detail}` : ""}`);
      const marks = { class: `edge${lit ? " lit" : ""}${kept ? " refused" : ""}`, d, "marker-end": l.tensors.size ? "url(#arrow)" : undefined };
      const title = s("title", {}, [size, ...(kept ? ["Not fused:", ...refusalLines] : [])].filter(Boolean).join("\n"));
      if (!kept) return s("path", marks, title);
      const pick = () => selectLink(l, boxes);
      return s("g", { class: "kept", tabindex: "0", role: "button", onclick: pick, onkeydown: (event) => event.key === "Enter" && pick() },
        title, s("path", marks), s("path", { class: "reach", d }));
    }
    function label(l, route) {
      const from = route[route.length - 2], to = route[route.length - 1];
      return s("text", { class: "bytes", x: (from.x + to.x) / 2, y: (from.y + HEIGHT + to.y) / 2 + 4 }, bytes(passed(l)));
    }
    // Frames an open layer if the frame contains no other box.
    function frames(cells) {
      const found = [];
      const paths = [...new Set(cells.flatMap((cell) => prefixes(cell.node.path)))].sort((a, b) => a.length - b.length);
      const held = new Map();
      for (const layer of paths) {
        const within = (cell) => prefixes(cell.node.path).includes(layer) && cell.node.title !== layer;
        const inside = cells.filter(within);
        const around = held.get(layer.slice(0, layer.lastIndexOf("/"))) ?? cells.length;
        held.set(layer, inside.length);
        if (inside.length < 2 || inside.length === around) continue;
        const pad = Math.max(5, 17 - 4 * layer.split("/").length);
        const left = Math.min(...inside.map((c) => c.x)) - WIDTH / 2 - pad, right = Math.max(...inside.map((c) => c.x)) + WIDTH / 2 + pad;
        const top = Math.min(...inside.map((c) => c.y)) - pad, bottom = Math.max(...inside.map((c) => c.y)) + HEIGHT + pad;
        const foreign = cells.some((c) => !within(c) && c.x + WIDTH / 2 > left && c.x - WIDTH / 2 < right && c.y + HEIGHT > top && c.y < bottom);
        if (foreign) continue;
        const odd = layer.split("/").length % 2;
        found.push(s("g", { class: "frame", onclick: () => close(layer) }, s("title", {}, `close ${layer}`),
          s("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 10 }),
          s("text", { x: odd ? right - 6 : left + 6, y: top - 3, "text-anchor": odd ? "end" : "start" }, layer.split("/").slice(-2).join("/"))));
      }
      return found;
    }

    function draw() {
      const boxes = view();
      const kept = boxes.map((_, n) => n).filter((n) => state.single || boxes[n].kind !== "op");
      const pages = Math.max(1, Math.ceil(kept.length / MAX_BOXES));
      state.page = Math.max(0, Math.min(state.page, pages - 1));
      const shown = kept.slice(state.page * MAX_BOXES, (state.page + 1) * MAX_BOXES);
      const local = new Map(shown.map((n, i) => [n, i]));
      const inside = links(boxes).filter((l) => local.has(l.source) && local.has(l.target))
        .map((l) => ({ ...l, from: local.get(l.source), to: local.get(l.target) }));
      const down = inside.filter((l) => l.tensors.size && l.from < l.to);
      const plan = layout(shown.map((n) => boxes[n]), down.map((l) => ({ source: l.from, target: l.to, link: l })));
      const routes = new Map(plan.routes.map(({ edge, route }) => [edge.link, route]));
      const head = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
        s("path", { d: "M0,0L8,4L0,8z", class: "edge", style: "fill:var(--dim);stroke:none" }));
      const visible = inside.filter((l) => l.tensors.size || state.refused);
      drawing.replaceChildren(s("svg", { width: plan.width, height: plan.height, viewBox: `0 0 ${plan.width} ${plan.height}` },
        s("defs", {}, head), frames(plan.cells), visible.map((l) => arrow(l, boxes, routes.get(l), plan.cells)),
        down.map((l) => label(l, routes.get(l))), plan.cells.map((cell) => box(cell))));
      where.textContent = pages > 1
        ? `${state.page * MAX_BOXES + 1}–${state.page * MAX_BOXES + shown.length} of ${kept.length} in program order`
        : `${kept.length} ${kept.length === 1 ? "box" : "boxes"}`;
      back.hidden = forth.hidden = pages === 1;
      back.disabled = state.page === 0;
      forth.disabled = state.page === pages - 1;
    }

    // --- the panel next to the drawing ---

    const reach = (key) => h("a", { href: "#graph", onclick: (event) => {
      event.preventDefault();
      select(key);
      drawing.querySelector(".chosen")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    } }, units().find((unit) => unit.key === key)?.title ?? key.slice(1));
    const crumbs = (path) => path.length > 0 && h("div", { class: "crumbs" }, prefixes(path).map((prefix, i) => [
      i > 0 && " / ", h("a", { href: "#graph", title: `close ${prefix}`, onclick: (event) => { event.preventDefault(); close(prefix); } }, path[i])]));
    function open(layer) {
      state.closed.delete(layer);
      const inside = view().find((b) => prefixes(b.path).includes(layer));
      select(inside.key);
    }
    function close(layer) {
      state.closed.add(layer);
      select(`l${layer}`);
    }

    function neighbors(title, list) {
      if (!list.length) return null;
      return [h("h4", {}, title), h("ul", {}, list.slice(0, MAX_LISTED).map(([key, size]) =>
        h("li", {}, reach(key), h("span", { class: "dim" }, `  ${bytes(size)}`))))];
    }

    function select(key) {
      const unit = units().find((u) => u.key === key);
      if (unit) for (const prefix of prefixes(unit.path)) state.closed.delete(prefix);
      const boxes = view();
      const chosen = boxes.findIndex((b) => b.key === key);
      state.chosen = chosen < 0 ? null : key;
      side.replaceChildren();
      if (chosen >= 0) {
        const kept = boxes.filter((b) => state.single || b.kind !== "op");
        state.page = Math.floor(Math.max(0, kept.indexOf(boxes[chosen])) / MAX_BOXES);
        add(side, {}, [boxes[chosen].kind === "layer" ? layerSide(boxes[chosen]) : unitSide(boxes[chosen]), around(boxes, chosen)]);
      }
      draw();
    }
    function around(boxes, chosen) {
      const all = links(boxes).filter((l) => l.tensors.size);
      return [neighbors("Producers", all.filter((l) => l.target === chosen).map((l) => [boxes[l.source].key, passed(l)])),
        neighbors("Users", all.filter((l) => l.source === chosen).map((l) => [boxes[l.target].key, passed(l)]))];
    }
    function layerSide(b) {
      return [h("h3", {}, b.path[b.path.length - 1]), crumbs(b.path.slice(0, -1)), h("div", { class: "dim" }, contents(b)),
        h("div", {}, h("button", { class: "button", onclick: () => open(b.title) }, "open this layer")),
        h("h4", {}, "Contents"), h("ul", {}, b.units.slice(0, MAX_LISTED * 2).map((unit) => h("li", {}, reach(unit.key))),
          b.units.length > MAX_LISTED * 2 && h("li", { class: "dim" }, `and ${b.units.length - MAX_LISTED * 2} more`))];
    }
    function unitSide(b) {
      const d = b.kind === "group" ? decisionOf(b.group) : null;
      const names = d ? d.op_names : b.ops.map((i) => ops[i].name);
      const locations = d ? d.ops : b.ops.map((i) => ops[i].location);
      const own = new Set(locations.filter((l) => l !== "-"));
      const others = refused.filter((r) => r.function === b.function && r.ops.some((l) => own.has(l)));
      const kernel = b.kind === "group" ? kernelOf(b.group) : undefined;
      return [h("h3", {}, b.title), crumbs(b.path), h("div", { class: "dim" }, `in @${b.function}`),
        kernel && kernelSide(kernel),
        d && h("div", {}, `against stock IREE: saves ${bytes(d.saving.bytes)}${d.saving.time && `, ${d.saving.time}`} (modelled)`),
        d && explanation(d), h("h4", {}, "Ops"), runs(names, locations).map(opLine),
        others.length > 0 && [h("h4", {}, `Refused candidates from the same source lines (${others.length})`), refusals(others)]];
    }
    function selectLink(l, boxes) {
      state.chosen = null;
      const decisions = [...l.decisions].map((n) => report.decisions[n]);
      side.replaceChildren(h("h3", {}, "Not fused"));
      add(side, {}, [h("div", {}, reach(boxes[l.source].key), l.tensors.size > 0 && h("span", { class: "dim" }, ` passes ${bytes(passed(l))} to `),
        l.tensors.size === 0 && " and ", reach(boxes[l.target].key)), h("h4", {}, "Reasons"), refusals(decisions)]);
      draw();
    }
    const refusals = (decisions) => h("div", { class: "stack" }, distinct(decisions).slice(0, MAX_LISTED).map(({ first, count }) => h("div", {},
      h("span", { class: "pill no" }, first.reason ?? "refused"), " ",
      h("span", { class: "mono" }, first.pass), count > 1 && ` ×${count}`, explanation(first))));

    function distinct(decisions) {
      const kinds = new Map();
      for (const d of decisions) {
        const key = `${d.pass} ${d.reason} ${d.detail}`;
        if (kinds.has(key)) kinds.get(key).count += 1;
        else kinds.set(key, { first: d, count: 1 });
      }
      return [...kinds.values()];
    }

    // --- the rewrites in order ---

    function stepBar() {
      const slide = h("input", { type: "range", min: 0, max: steps.length, value: steps.length, "aria-label": "step" });
      const caption = h("span", { class: "mono", id: "step" });
      const go = (to) => {
        state.step = Math.max(0, Math.min(steps.length, to));
        slide.value = String(state.step);
        const step = steps[state.step - 1];
        const done = step ? step.decisions.map((n) => report.decisions[n]) : [];
        const label = !step ? "before the first rewrite"
          : `${done[0].pass}${done[0].match === null || done.length > 1 ? "" : ` #${done[0].match}`}${done.length > 1 ? ` ×${done.length}` : ""}`;
        caption.textContent = `${state.step} of ${steps.length}: ${label}`;
        previous.disabled = state.step === 0;
        next.disabled = state.step === steps.length;
        if (step && step.group !== null) {
          select(`g${step.group}`);
          drawing.querySelector(".chosen")?.scrollIntoView({ block: "nearest", inline: "nearest" });
          return;
        }
        select(null);
        add(side, {}, step ? [h("h3", {}, label), h("div", { class: "dim" }, "rewrites ops without forming a group; the drawing shows the final ops"),
          h("h4", {}, "Ops"), done.slice(0, MAX_LISTED).flatMap((d) => runs(d.op_names, d.ops).map(opLine))]
          : [h("h3", {}, "Before the first rewrite"), h("div", { class: "dim" }, "no op is in a group")]);
      };
      const previous = h("button", { class: "button", "aria-label": "previous step", onclick: () => go(state.step - 1) }, "‹");
      const next = h("button", { class: "button", "aria-label": "next step", onclick: () => go(state.step + 1) }, "›");
      slide.addEventListener("input", () => go(Number(slide.value)));
      caption.textContent = `${steps.length} of ${steps.length}: the result`;
      next.disabled = true;
      return h("div", { class: "pager" }, "Rewrites in order", previous, slide, next, caption);
    }

    const check = (name, text) => h("label", {}, h("input", {
      type: "checkbox", checked: state[name] ? "" : undefined, "aria-label": text,
      onchange: (event) => { state[name] = event.target.checked; draw(); },
    }), ` ${text}`);
    const uses = new Map();
    for (const g of formed) uses.set(g.pass_name, (uses.get(g.pass_name) ?? 0) + 1);
    at("graph").append(h("h2", {}, "Fusion graph ", h("small", {}, report.kernels.some((k) => k.measured) ? "kernels and layers as boxes, the slowest darkest; tensors as arrows" : "kernels and layers as boxes, tensors as arrows")),
      h("div", { class: "card scroll" },
        h("div", { class: "pager" }, back, forth, where, h("span", { style: "flex:1" }),
          ops.some((op) => op.group === null) && check("single", "ops in no group"),
          report.graph.refused.length > 0 && check("refused", "refused fusions")),
        steps.length > 0 && stepBar(),
        h("div", { class: "canvas", style: "border-top:1px solid var(--line)" }, drawing, side),
        h("div", { class: "legend" }, [...uses].map(([name, count]) =>
          h("span", {}, h("i", { style: `--hue:${hueOf.get(name)}` }), `${name === "iree" ? "fused by IREE" : name} ×${count}`)))));
    openLayers();
    const first = view();
    select((first.find((b) => b.kind === "group") ?? first[0]).key);
    const middle = drawing.querySelector(".chosen").getBoundingClientRect();
    drawing.scrollLeft = middle.left + middle.width / 2 - drawing.getBoundingClientRect().left - drawing.clientWidth / 2;
  }
