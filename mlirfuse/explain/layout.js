  // --- layered layout, by dagre -----------------------------------------------------------------

  // A kernel has four lines of text, an op or a group two.
  const WIDTH = 250, HEIGHT = report.kernels.length ? 82 : 46;
  const SPACING = { rankdir: "TB", nodesep: 26, edgesep: 12, ranksep: 22, marginx: 26, marginy: 26 };
  const LABEL = { width: 84, height: 24, labelpos: "c" };

  // Cells hold the center of a box in x and its upper edge in y. A route has the points of an edge, from
  // box to box, and the center of its label.
  function layout(nodes, edges) {
    const drawn = new dagre.graphlib.Graph({ multigraph: true });
    drawn.setGraph({ ...SPACING });
    nodes.forEach((_, i) => drawn.setNode(String(i), { width: WIDTH, height: HEIGHT }));
    edges.forEach((edge, i) => drawn.setEdge(String(edge.source), String(edge.target), { ...LABEL }, String(i)));
    dagre.layout(drawn);
    const cells = nodes.map((node, i) => {
      const { x, y } = drawn.node(String(i));
      return { node, x, y: y - HEIGHT / 2 };
    });
    const routes = edges.map((edge, i) => ({ edge, route: drawn.edge(String(edge.source), String(edge.target), String(i)) }));
    return { cells, routes, width: drawn.graph().width, height: drawn.graph().height };
  }

  // A smooth line through the middles of the route's sections.
  function path({ points }) {
    const middle = (a, b) => `${(a.x + b.x) / 2},${(a.y + b.y) / 2}`;
    const last = points[points.length - 1];
    const bends = points.slice(1, -1).map((p, i) => `Q${p.x},${p.y} ${i + 3 < points.length ? middle(p, points[i + 2]) : `${last.x},${last.y}`}`);
    return `M${points[0].x},${points[0].y}${bends.length ? bends.join("") : `L${last.x},${last.y}`}`;
  }
