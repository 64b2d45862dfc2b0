  // --- layered layout ---------------------------------------------------------------------------

  // A kernel has four lines of text, an op or a group two.
  const CENTER_WEIGHT = 2, WIDTH = 250, HEIGHT = report.kernels.length ? 82 : 46, GAP_X = 26, GAP_Y = 46, LANE = 12, MARGIN = 26;

  // Rows by longest path, since every edge leads to a later node. An edge that spans
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
