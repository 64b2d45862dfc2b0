  // --- stock IREE's kernels for the same source ops ---------------------------------------------

  const stockOf = new Map(report.stock.sets.flatMap((set) => set.ours.map((i) => [i, set])));
  const stockNames = (set) => set.stock.map((i) => report.stock.kernels[i]);

  function stockSide(k) {
    const set = stockOf.get(k.index);
    return set && [h("h4", {}, `Stock IREE: ${plural(set.stock.length, "kernel")} for ${set.ours.length > 1 ? `these ops and those of ${set.ours.length - 1} more` : "these ops"}`),
      stockNames(set).slice(0, MAX_LISTED).map((other) => h("div", { class: "ops" }, other.name)),
      set.stock.length > MAX_LISTED && h("div", { class: "dim" }, `and ${set.stock.length - MAX_LISTED} more`),
      h("div", { class: "dim" }, `${bytes(set.bytes)} here, ${bytes(set.stock_bytes)} there`)];
  }

  // Microseconds of the kernels in their fastest calls; null where one was not measured.
  function fastest(kernels) {
    const times = kernels.map((k) => (k.measured ? k.measured.min_us / k.measured.kernels : null));
    return times.includes(null) ? null : sum(times);
  }

  function stock() {
    if (!report.stock.kernels.length) return;
    const rows = report.stock.sets.map((set) => {
      const ours = set.ours.map((i) => report.kernels[i]), theirs = stockNames(set);
      const time = fastest(ours), stockTime = fastest(theirs);
      return { ...set, ours, theirs, time, stockTime, ratio: time && stockTime ? stockTime / time : null };
    });
    const names = (kernels) => kernels.map((k) => h("div", { class: "mono" }, `#${k.index} ${k.name}`));
    const columns = [
      { ...plain("kernels here", (row) => row.ours[0].index, true), cell: (row) => names(row.ours), number: false },
      { ...plain("of stock IREE", (row) => row.theirs.length), cell: (row) => names(row.theirs) },
      plain("bytes here", (row) => row.bytes, true, bytes),
      plain("bytes there", (row) => row.stock_bytes, true, bytes),
    ];
    if (rows.some((row) => row.ratio !== null)) {
      columns.push(plain("time here", (row) => row.time, true, micro), plain("time there", (row) => row.stockTime, true, micro),
        plain("there over here", (row) => row.ratio, true, (ratio) => (ratio === null ? "–" : ratio.toFixed(2))));
    }
    const alone = (kernels, of) => {
      const matched = new Set(report.stock.sets.flatMap((set) => set[of]));
      return kernels.filter((k) => !matched.has(k.index));
    };
    const left = [[alone(report.kernels, "ours"), "only here"], [alone(report.stock.kernels, "stock"), "only there"]].filter(([kernels]) => kernels.length);
    at("stock").append(h("h2", {}, "Compared with stock IREE ", h("small", {}, `${plural(report.kernels.length, "kernel")} here, ${report.stock.kernels.length} there; a row has the kernels of the same source ops; click one for the ops`)),
      h("div", { class: "card scroll tall" }, sortedTable(columns, rows, "stock-rows", (row) => [["Here", row.ours], ["There", row.theirs]].map(([title, kernels]) => [
        h("h4", {}, title), kernels.flatMap((k) => k.ops).map((line) => h("div", { class: "ops" }, line))]))),
      ...left.map(([kernels, where]) => h("p", { class: "dim" }, `${where}: ${kernels.map((k) => k.name).join(", ")}`)));
  }
