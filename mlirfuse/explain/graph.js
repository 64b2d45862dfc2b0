  // --- graph ----------------------------------------------------------------------------------

  const MAX_BOXES = 60, MAX_BOXES_OPENED = 30, MAX_LISTED = 12;
  const MIN_ZOOM = 0.1, MAX_ZOOM = 3, ZOOM_STEP = 1.25;

  const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  function graph() {
    const { ops, groups: formed, edges, steps } = report.graph;
    if (!ops.length) return;
    const byMatch = new Map(groups.map((d) => [`${d.function} ${d.pass} ${d.match}`, d]));
    const decisionOf = (g) => byMatch.get(`${formed[g].function} ${formed[g].pass_name} ${formed[g].match}`);
    const membersOf = formed.map(() => []);
    ops.forEach((op, i) => op.group !== null && membersOf[op.group].push(i));
    const formedAt = formed.map(() => 0);
    steps.forEach((step, i) => { if (step.group !== null) formedAt[step.group] = i + 1; });
    const functions = new Set(ops.map((op) => op.function).filter(Boolean));
    const pathOf = (item) => [functions.size > 1 && item.function ? `@${item.function}` : "", ...item.layer.split("/")].filter(Boolean);
    const state = { step: steps.length, page: 0, chosen: null, refused: true, single: true, closed: new Set(), zoom: 1, found: [] };

    // A unit is a kernel, a group that is formed by the current step, or an op in no group.
    const kernel = (i) => ({ key: `k${i}`, kind: "kernel", kernel: report.kernels[ops[i].kernel], path: pathOf(ops[i]), ops: [i], function: ops[i].function, title: kernelTitle(report.kernels[ops[i].kernel]) });
    const group = (g) => ({ key: `g${g}`, kind: "group", group: g, path: pathOf(formed[g]), ops: membersOf[g], function: formed[g].function, title: `${formed[g].pass_name} #${formed[g].match}` });
    const single = (i) => ({ key: `o${i}`, kind: "op", op: i, path: pathOf(ops[i]), ops: [i], function: ops[i].function, title: ops[i].name });
    function units() {
      const made = new Map();
      ops.forEach((op, i) => {
        if (op.kernel !== null) {
          made.set(`k${i}`, kernel(i));
          return;
        }
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
    // Opens layers from the outside in, one depth at a time, while the drawing stays small; and those
    // that hide one unit.
    function openLayers() {
      for (const unit of units()) for (const prefix of prefixes(unit.path)) state.closed.add(prefix);
      for (;;) {
        const before = view();
        const layers = before.filter((box) => box.kind === "layer");
        if (!layers.length) break;
        const depth = Math.min(...layers.map((box) => box.path.length));
        const next = layers.filter((box) => box.path.length === depth);
        for (const box of next) state.closed.delete(box.title);
        const after = view().length;
        if (after > MAX_BOXES_OPENED && after > before.length && before.length > 1) {
          for (const box of next) state.closed.add(box.title);
          break;
        }
      }
      const lonely = view().filter((box) => box.kind === "layer" && box.units.length === 1);
      for (const box of lonely) for (const prefix of prefixes(box.units[0].path)) state.closed.delete(prefix);
    }

    // Links between boxes: the tensors between them, and the decisions that refused to fuse them.
    function links(boxes) {
      const owner = new Map();
      boxes.forEach((box, n) => box.ops.forEach((i) => owner.set(i, n)));
      const hidden = (n) => boxes[n].kind === "op" && !state.single;
      const found = new Map();
      const link = (source, target) => {
        const key = `${source} ${target}`;
        if (!found.has(key)) found.set(key, { source, target, tensors: new Map(), decisions: new Set(), boundaries: [] });
        return found.get(key);
      };
      const feeds = boxes.map(() => new Map());
      const order = edges.map((e) => ({ e, source: owner.get(e.source), target: owner.get(e.target) }))
        .filter(({ source, target }) => source !== target).sort((a, b) => a.target - b.target);
      for (const { e, source, target } of order) {
        if (e.boundary !== null) link(source, target).boundaries.push(report.boundaries[e.boundary]);
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

    // The lines of a box, the first one its title.
    function lines(b) {
      if (b.kind === "kernel") return kernelLines(b.kernel);
      if (b.kind === "layer") return [b.path.slice(-2).join("/"), contents(b)];
      if (b.kind === "op") return [b.title, shownLocation(ops[b.op].location).split("/").pop()];
      const d = decisionOf(b.group);
      return [b.title, [plural(d?.ops.length ?? b.ops.length, "op"), d?.saving.bytes && `saves ${bytes(d.saving.bytes)}`].filter(Boolean).join(" · ")];
    }
    function box(cell) {
      const b = cell.node;
      const time = b.kernel?.measured;
      const hue = hueOf.get(b.kernel?.code ?? formed[b.group]?.pass_name);
      const classes = ["node", b.kind, b.kind === "op" && "single", time && "timed", state.chosen === b.key && "chosen", state.found.includes(b.key) && "found"];
      const pick = () => select(b.key);
      return s("g", {
        class: classes.filter(Boolean).join(" "), "data-key": b.key,
        style: hue === undefined ? undefined : `--hue:${hue}${time ? `;--heat:${heat(time.share)}` : ""}`,
        transform: `translate(${cell.x - WIDTH / 2},${cell.y})`, tabindex: "0", role: "button", onclick: pick,
        ondblclick: () => b.kind === "layer" && open(b.title),
        onkeydown: (event) => event.key === "Enter" && pick(),
      }, s("title", {}, [b.kernel?.name ?? b.title, b.path.join("/"), ...(b.kernel?.ops ?? new Set(b.ops.map((i) => ops[i].location)))].slice(0, 8).join("\n")),
      b.kind === "layer" && s("rect", { x: 4, y: 4, width: WIDTH, height: HEIGHT, rx: 7 }),
      s("rect", { width: WIDTH, height: HEIGHT, rx: 7 }),
      lines(b).map((line, i) => s("text", i ? { x: 10, y: 19 + 17 * i, class: "dim" } : { x: 10, y: 19 }, short(line, i ? 37 : 33))));
    }
    function contents(b) {
      const of = (kind, noun) => {
        const inside = b.units.filter((unit) => unit.kind === kind).length;
        return inside && plural(inside, noun);
      };
      return [of("kernel", "kernel"), of("group", "group"), of("op", "op")].filter(Boolean).join(", ");
    }

    function arrow(l, boxes, route, cells) {
      const a = cells[l.from], b = cells[l.to];
      const kept = state.refused && (l.decisions.size > 0 || l.boundaries.length > 0);
      const dotted = kept && (l.decisions.size > 0 || l.boundaries.some((b) => report.reasons[b.reason].refusal));
      const lit = boxes[l.source].key === state.chosen || boxes[l.target].key === state.chosen;
      const bend = Math.max(a.x, b.x) + WIDTH / 2 + 24, ya = a.y + HEIGHT / 2, yb = b.y + HEIGHT / 2;
      const d = route ? path(route) : `M${a.x + WIDTH / 2},${ya}C${bend},${ya} ${bend},${yb} ${b.x + WIDTH / 2},${yb}`;
      const reasons = [...l.decisions].map((n) => report.decisions[n]);
      const size = l.tensors.size ? `${bytes(passed(l))} from ${boxes[l.source].title} to ${boxes[l.target].title}` : "";
      const refusalLines = distinct(reasons).map(({ first }) => `${first.pass}: ${report.reasons[first.reason]?.text ?? "refused"}${first.detail ? `: ${first.detail}` : ""}`);
      const why = [...l.boundaries.map((b) => `${tensorOf(b)}: ${reasonLine(b)}`), ...(refusalLines.length ? ["Not fused:", ...refusalLines] : [])];
      const marks = { class: `edge${lit ? " lit" : ""}${dotted ? " refused" : ""}`, d, "marker-end": l.tensors.size ? "url(#arrow)" : undefined };
      const title = s("title", {}, [size, ...(kept ? why : [])].filter(Boolean).join("\n"));
      if (!kept) return s("path", marks, title);
      const pick = () => selectLink(l, boxes);
      return s("g", { class: "kept", tabindex: "0", role: "button", onclick: pick, onkeydown: (event) => event.key === "Enter" && pick() },
        title, s("path", marks), s("path", { class: "reach", d }));
    }
    function label(l, route) {
      const x = route.x, y = route.y + 4;
      const codes = [...new Set(l.boundaries.map((b) => b.reason))];
      const reason = state.refused && codes.length > 0 && s("text", { class: "bytes why", x, y: y + 5 }, codes.length > 1 ? plural(codes.length, "reason") : codes[0]);
      return [s("text", { class: "bytes", x, y: reason ? y - 6 : y }, bytes(passed(l))), reason];
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
      state.size = [plan.width, plan.height];
      drawing.replaceChildren(s("svg", { viewBox: `0 0 ${plan.width} ${plan.height}` },
        s("defs", {}, head), frames(plan.cells), visible.map((l) => arrow(l, boxes, routes.get(l), plan.cells)),
        down.map((l) => label(l, routes.get(l))), plan.cells.map((cell) => box(cell))));
      resize();
      where.textContent = pages > 1
        ? `${state.page * MAX_BOXES + 1}–${state.page * MAX_BOXES + shown.length} of ${kept.length} in program order`
        : `${kept.length} ${kept.length === 1 ? "box" : "boxes"}`;
      back.hidden = forth.hidden = pages === 1;
      back.disabled = state.page === 0;
      forth.disabled = state.page === pages - 1;
    }

    // --- zoom and search ---

    function resize() {
      const [width, height] = state.size;
      add(drawing.firstElementChild, { width: width * state.zoom, height: height * state.zoom }, []);
    }
    // Keeps the point at this offset of the drawing's corner where it is.
    function zoom(to, x = drawing.clientWidth / 2, y = drawing.clientHeight / 2) {
      const before = state.zoom;
      state.zoom = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, to));
      resize();
      drawing.scrollLeft = (drawing.scrollLeft + x) * state.zoom / before - x;
      drawing.scrollTop = (drawing.scrollTop + y) * state.zoom / before - y;
    }
    drawing.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const corner = drawing.getBoundingClientRect();
      zoom(state.zoom * (event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP), event.clientX - corner.left, event.clientY - corner.top);
    }, { passive: false });
    const zoomBar = () => [["zoom out", "−", () => zoom(state.zoom / ZOOM_STEP)], ["zoom in", "+", () => zoom(state.zoom * ZOOM_STEP)],
      ["fit the width", "↔", () => zoom(drawing.clientWidth / state.size[0])]]
      .map(([label, sign, onclick]) => h("button", { class: "button", "aria-label": label, title: label, onclick }, sign));

    function haystackOf(unit) {
      const inside = unit.kernel ? [unit.kernel.name, unit.kernel.code, unit.kernel.pass ?? "", unit.kernel.kinds, ...unit.kernel.ops, ...unit.kernel.layers]
        : unit.ops.flatMap((i) => [ops[i].name, ops[i].location]);
      return [unit.title, unit.path.join("/"), ...inside].join("\n").toLowerCase();
    }
    function finder() {
      const note = h("span", { id: "boxes-found" });
      let shown = 0;
      const show = (next) => {
        shown = state.found.length ? next % state.found.length : 0;
        note.textContent = state.found.length ? `${shown + 1} of ${state.found.length}` : "nothing matches";
        if (state.found.length) reveal(state.found[shown]);
        else draw();
      };
      const field = h("input", { type: "search", placeholder: "Find a kernel, layer, op or line", "aria-label": "find in the graph",
        oninput: () => {
          const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
          state.found = words.length ? units().filter((unit) => words.every((word) => haystackOf(unit).includes(word))).map((unit) => unit.key) : [];
          if (words.length) show(0);
          else {
            note.textContent = "";
            draw();
          }
        },
        onkeydown: (event) => event.key === "Enter" && show(shown + 1) });
      return [field, note];
    }

    // --- the panel next to the drawing ---

    function reveal(key) {
      select(key);
      drawing.querySelector(".chosen")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    const reach = (key) => h("a", { href: "#graph", onclick: (event) => {
      event.preventDefault();
      reveal(key);
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
      return [h("h4", {}, title), h("ul", {}, list.slice(0, MAX_LISTED).map(([key, l]) =>
        h("li", {}, reach(key), h("span", { class: "dim" }, `  ${[bytes(passed(l)), ...new Set(l.boundaries.map((b) => b.reason))].join(", ")}`))))];
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
      return [neighbors("Producers", all.filter((l) => l.target === chosen).map((l) => [boxes[l.source].key, l])),
        neighbors("Users", all.filter((l) => l.source === chosen).map((l) => [boxes[l.target].key, l]))];
    }
    function layerSide(b) {
      return [h("h3", {}, b.path[b.path.length - 1]), crumbs(b.path.slice(0, -1)), h("div", { class: "dim" }, contents(b)),
        h("div", {}, h("button", { class: "button", onclick: () => open(b.title) }, "open this layer")),
        h("h4", {}, "Contents"), h("ul", {}, b.units.slice(0, MAX_LISTED * 2).map((unit) => h("li", {}, reach(unit.key))),
          b.units.length > MAX_LISTED * 2 && h("li", { class: "dim" }, `and ${b.units.length - MAX_LISTED * 2} more`))];
    }
    function unitSide(b) {
      const k = b.kernel;
      const d = k ? byMatch.get(`${k.function} ${k.pass} ${k.match}`) : b.kind === "group" ? decisionOf(b.group) : null;
      const names = d ? d.op_names : b.ops.map((i) => ops[i].name);
      const locations = k ? k.locations : d ? d.ops : b.ops.map((i) => ops[i].location);
      const own = new Set(locations.filter((l) => l !== "-"));
      const others = refused.filter((r) => r.function === b.function && r.ops.some((l) => own.has(l)));
      return [h("h3", {}, b.title), crumbs(b.path), b.function && h("div", { class: "dim" }, `in @${b.function}`),
        k && kernelSide(k),
        d && h("div", {}, `against stock IREE: saves ${bytes(d.saving.bytes)}${d.saving.time && `, ${d.saving.time}`} (modelled)`),
        d && explanation(d), h("h4", {}, "Ops"),
        k ? k.ops.map((line) => h("div", { class: "ops" }, line)) : runs(names, locations).map(opLine),
        others.length > 0 && [h("h4", {}, `Refused candidates from the same source lines (${others.length})`), refusals(others)]];
    }
    function selectLink(l, boxes) {
      state.chosen = null;
      const decisions = [...l.decisions].map((n) => report.decisions[n]);
      side.replaceChildren(h("h3", {}, l.boundaries.length ? "Why these are two kernels" : "Not fused"));
      add(side, {}, [h("div", {}, reach(boxes[l.source].key), l.tensors.size > 0 && h("span", { class: "dim" }, ` passes ${bytes(passed(l))} to `),
        l.tensors.size === 0 && " and ", reach(boxes[l.target].key)), h("h4", {}, "Reasons"),
      h("div", { class: "stack" }, l.boundaries.map((b) => h("div", {}, h("span", { class: "pill no" }, b.reason), " ", h("span", { class: "mono" }, tensorOf(b)), boundaryReason(b)))),
      refusals(decisions)]);
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
          reveal(`g${step.group}`);
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
    for (const name of report.kernels.length ? report.kernels.map((k) => k.code) : formed.map((g) => g.pass_name)) uses.set(name, (uses.get(name) ?? 0) + 1);
    at("graph").append(h("h2", {}, "Graph ", h("small", {}, !report.kernels.length ? "groups, ops and layers as boxes, tensors as arrows"
      : `the kernels of the final program, tensors as arrows with the reason between two kernels${report.kernels.some((k) => k.measured) ? "; the slowest is darkest" : ""}`)),
      h("div", { class: "card scroll" },
        h("div", { class: "pager" }, back, forth, where, zoomBar(), finder(), h("span", { style: "flex:1" }),
          !report.kernels.length && ops.some((op) => op.group === null) && check("single", "ops in no group"),
          report.graph.refused.length > 0 && check("refused", "refused fusions"),
          report.kernels.length > 0 && report.boundaries.length > 0 && check("refused", "reasons")),
        steps.length > 0 && stepBar(),
        h("div", { class: "canvas", style: "border-top:1px solid var(--line)" }, drawing, side),
        h("div", { class: "legend" }, [...uses].map(([name, count]) =>
          h("span", {}, h("i", { style: `--hue:${hueOf.get(name)}` }), `${name === "iree" ? "code of IREE" : name} ×${count}`)))));
    openLayers();
    const first = view();
    select((first.find((b) => b.kind !== "op") ?? first[0]).key);
    const middle = drawing.querySelector(".chosen").getBoundingClientRect();
    drawing.scrollLeft = middle.left + middle.width / 2 - drawing.getBoundingClientRect().left - drawing.clientWidth / 2;
  }
