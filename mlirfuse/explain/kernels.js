  // --- kernels of the final program -----------------------------------------------------------

  const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
  const rate = (value) => (value === null || value === undefined ? "–" : `${(value / 1e9).toFixed(value < 1e10 ? 1 : 0)} GB/s`);
  const count = (value) => {
    if (value === null || value === undefined) return "–";
    const unit = ["", " k", " M", " G", " T"].findLast((_, i) => value >= 1000 ** i) ?? "";
    const shown = value / 1000 ** ["", " k", " M", " G", " T"].indexOf(unit);
    return `${shown.toFixed(unit && shown < 100 ? 1 : 0)}${unit}`;
  };
  // The share of the slowest kernel is the darkest.
  const slowest = Math.max(...report.kernels.map((k) => k.measured?.share ?? 0), 1e-9);
  const heat = (share) => (0.05 + 0.8 * share / slowest).toFixed(3);
  const codeOf = (k) => [k.code, k.pass && k.pass !== k.code && `formed by ${k.pass}`].filter(Boolean).join(", ");

  // The innermost layers of a kernel; its name where they are not known.
  function kernelTitle(k) {
    const inner = k.layers.filter((layer) => !k.layers.some((other) => other.startsWith(`${layer}/`)));
    return `#${k.index} ${inner.map((layer) => layer.split("/").slice(-2).join("/")).join(", ") || k.name}`;
  }
  // `(64x32xf32, 32xf32) -> 64x32xf32` as `64x32, 32 → 64x32 f32`, where all have one element type; equal ones are counted.
  function signature(k) {
    const types = new Set([...k.reads, ...k.writes].map((t) => t.split("x").pop()));
    const shape = (t) => (types.size > 1 || !t.includes("x") ? t : t.slice(0, t.lastIndexOf("x")));
    const shown = (list) => runs(list.map(shape), []).map((run) => (run.count > 1 ? `${run.count}× ${run.name}` : run.name)).join(", ");
    return !types.size ? "" : `${shown(k.reads)} → ${shown(k.writes)}${types.size === 1 ? ` ${[...types][0]}` : ""}`;
  }
  function kernelLines(k) {
    const worth = k.measured ? `${micro(k.measured.median_us)}, ${percent(k.measured.share)}` : bytes(k.bytes);
    const formed = k.pass && k.pass !== k.code ? ` (${k.pass})` : "";
    return [kernelTitle(k), `${k.kinds || k.name}${formed}`, signature(k), `${worth} · ${k.code === "iree" ? "code of IREE" : k.code}`];
  }
  const tensorOf = (b) => [...b.shape.map((n) => n ?? "?"), b.dtype].join("x");
  const reasonLine = (b) => `${report.reasons[b.reason].text}${b.detail ? `: ${b.detail}` : ""}`;
  const boundaryReason = (b) => [h("div", {}, report.reasons[b.reason].text, b.detail && h("span", { class: "ops" }, `: ${b.detail}`)),
    h("div", { class: "hint" }, `To change it: ${b.hint}.`)];

  function kernelSide(k) {
    const time = k.measured;
    return [k.name && h("div", { class: "mono" }, k.name), h("div", {}, codeOf(k)),
      time && h("div", {}, `${micro(time.median_us)} measured, ${percent(time.share)} of the kernels' time${time.kernels > 1 ? `, together with ${time.kernels - 1} of the same code` : ""}`),
      time && time.bytes_per_second !== null && h("div", {}, `${rate(time.bytes_per_second)}${time.copy_share === null ? "" : `, ${percent(time.copy_share)} of the copy rate`}${time.bound ? `; bound by ${time.bound}` : ""}`),
      h("h4", {}, "Tensors"), h("div", { class: "ops" }, `(${k.reads.join(", ")}) → ${k.writes.join(", ")}`), stockSide(k)];
  }

  // A table whose columns sort it; `columns` are name, whether it is a number, value, and cells.
  function sortedTable(columns, rows, id, more) {
    const state = { by: -1, down: true };
    const body = h("tbody", { id });
    function draw() {
      const kept = [...rows];
      if (state.by >= 0) {
        const value = columns[state.by].value;
        const less = (a, b) => (typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : (a ?? -1) - (b ?? -1));
        kept.sort((a, b) => (state.down ? less(value(b), value(a)) : less(value(a), value(b))));
      }
      body.replaceChildren(...kept.map((row) => {
        let opened = null;
        const line = h("tr", { class: "row", tabindex: "0" }, columns.map((c) => h("td", { class: c.number ? "n" : "" }, c.cell(row))));
        const toggle = () => {
          if (opened) opened.remove();
          opened = opened ? null : h("tr", { class: "more" }, h("td", { colspan: String(columns.length) }, more(row)));
          if (opened) line.after(opened);
        };
        line.addEventListener("click", toggle);
        line.addEventListener("keydown", (event) => event.key === "Enter" && toggle());
        return line;
      }));
    }
    const sort = (i) => {
      state.down = state.by === i ? !state.down : columns[i].number;
      state.by = i;
      draw();
    };
    draw();
    return h("table", {}, h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { class: c.number ? "n" : "" },
      h("button", { onclick: () => sort(i), title: "sort by this column" }, `${c.name} ↕`))))), body);
  }

  const plain = (name, value, number = false, shown = (v) => v) => ({ name, number, value, cell: (row) => shown(value(row)) });

  function kernels() {
    if (!report.kernels.length) return;
    const timed = report.kernels.some((k) => k.measured);
    const columns = [
      plain("#", (k) => k.index, true, String),
      { ...plain("kernel", (k) => k.name), cell: (k) => [h("div", { class: "mono" }, k.name), h("div", { class: "ops" }, k.kinds),
        h("div", { class: "label" }, k.layers.slice(0, 2).join(", "), k.layers.length > 2 && ` and ${k.layers.length - 2} more`)] },
      { ...plain("code", (k) => k.code), cell: (k) => h("span", { class: k.code === "iree" ? "pill no" : "pill yes" }, k.code) },
      { ...plain("result", (k) => k.writes.join()), cell: (k) => h("span", { class: "mono" }, k.writes.join(", ")) },
      plain("calls", (k) => k.calls, true, (n) => n ?? "loop"),
      plain("bytes", (k) => k.bytes, true, bytes),
      plain("flops", (k) => k.flops, true, count),
    ];
    if (timed) {
      columns.push(plain("time", (k) => k.measured?.median_us, true, micro),
        { ...plain("share", (k) => k.measured?.share, true), cell: (k) => k.measured && [
          h("span", { class: "meterlet", style: `width:${(60 * k.measured.share / slowest).toFixed(1)}px` }), percent(k.measured.share)] },
        plain("rate", (k) => k.measured?.bytes_per_second, true, rate),
        plain("of copy", (k) => k.measured?.copy_share, true, percent),
        plain("bound", (k) => k.measured?.bound ?? ""));
    }
    at("kernels").append(h("h2", {}, "Kernels ", h("small", {}, `of the final program${timed ? ", with measured times" : ""}; click one for its ops`)),
      h("div", { class: "card scroll tall" }, sortedTable(columns, report.kernels, "kernel-rows",
        (k) => [kernelSide(k), h("h4", {}, "Ops"), k.ops.map((line) => h("div", { class: "ops" }, line))])));
  }

  // --- tensors between kernels ----------------------------------------------------------------

  function boundaries() {
    if (!report.boundaries.length) return;
    const columns = [
      { ...plain("from", (b) => b.source, false), cell: (b) => h("span", { class: "mono" }, `#${b.source} ${b.source_name}`) },
      { ...plain("to", (b) => b.target, false), cell: (b) => h("span", { class: "mono" }, `#${b.target} ${b.target_name}`) },
      { ...plain("tensor", tensorOf), cell: (b) => h("span", { class: "mono" }, tensorOf(b)) },
      plain("bytes", (b) => b.bytes, true, bytes),
      plain("reason", (b) => b.reason, false, (code) => h("span", { class: "pill no" }, code)),
    ];
    at("boundaries").append(h("h2", {}, "Boundaries ", h("small", {}, "tensors that two kernels exchange, and why they are two; click one for what would change it")),
      h("div", { class: "card scroll tall" }, sortedTable(columns, report.boundaries, "boundary-rows", (b) => [
        boundaryReason(b), h("h4", {}, "From"), [...new Set(b.source_ops)].map((l) => h("div", { class: "ops" }, l)),
        h("h4", {}, "To"), [...new Set(b.target_ops)].map((l) => h("div", { class: "ops" }, l))])));
  }
