"""Modules of one loop over time: LSTM, GRU, RNN cells and a gate without a contraction."""

import dataclasses

import numpy as np

GATES = {"lstm": 4, "gru": 3, "gru_before": 3, "rnn": 1, "gate": 1}
"""Cell -> tiles of the projected input. `gru_before` multiplies the state by the reset gate before
its contraction, `gate` has no contraction."""


@dataclasses.dataclass(frozen=True)
class Recurrence:
    """A loop over time.

    Attributes:
      cell: a key of `GATES`.
      steps: iterations.
      rows: shape of the states before their last dimension.
      columns: their last dimension.
      dtype: element type.
      backward: whether it begins with the last slice of the input.
    """

    cell: str
    steps: int = 5
    rows: tuple[int, ...] = (3,)
    columns: int = 24
    dtype: str = "f32"
    backward: bool = False

    @property
    def states(self):
        return 2 if self.cell == "lstm" else 1

    @property
    def shape(self):
        return (*self.rows, self.columns)

    @property
    def shapes(self):
        """The shapes of the arguments: projected input, weights, first states."""
        wide = GATES[self.cell] * self.columns
        given = (self.steps, *self.rows, wide)
        return [given, (wide, self.columns), *[self.shape] * self.states]

    @property
    def result_shapes(self):
        return [(self.steps, *self.shape), *[self.shape] * self.states]


def _parallel(count):
    return ", ".join(['"parallel"'] * count)


class _Text:
    """The ops of an iteration."""

    def __init__(self, spec):
        self.spec = spec
        self.lines = []
        self.count = 0

    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def kind(self, shape, element=None):
        return f"tensor<{''.join(f'{n}x' for n in shape)}{element or self.spec.dtype}>"

    def elementwise(self, expression, *values):
        """An op over the states' shape; `expression` has lines from %a0, %a1 to %z."""
        dims = ", ".join(f"d{n}" for n in range(len(self.spec.shape)))
        same = f"affine_map<({dims}) -> ({dims})>"
        kind, element, found = self.kind(self.spec.shape), self.spec.dtype, self.name()
        arguments = ", ".join(f"%a{n}: {element}" for n in range(len(values)))
        self.lines.append(
            f"{found} = linalg.generic {{indexing_maps = [{', '.join([same] * (len(values) + 1))}],"
            f" iterator_types = [{_parallel(len(self.spec.shape))}]}}"
            f" ins({', '.join(values)} : {', '.join([kind] * len(values))})"
            f" outs(%state : {kind}) {{ ^bb0({arguments}, %o: {element}):"
            f" {expression.replace('T', element)} linalg.yield %z : {element} }} -> {kind}"
        )
        return found

    def sigmoid(self, value):
        text = "%m = arith.negf %a0 : T %e = math.exp %m : T %s = arith.addf %e, %one : T"
        return self.elementwise(text + " %z = arith.divf %one, %s : T", value)

    def tanh(self, value):
        return self.elementwise("%z = math.tanh %a0 : T", value)

    def add(self, one, other):
        return self.elementwise("%z = arith.addf %a0, %a1 : T", one, other)

    def mul(self, one, other):
        return self.elementwise("%z = arith.mulf %a0, %a1 : T", one, other)

    def part(self, value, gate, count):
        """A gate's columns of a tensor with `count` gates."""
        shape, found = self.spec.shape, self.name()
        offsets = ", ".join(["0"] * len(self.spec.rows) + [str(gate * self.spec.columns)])
        ones = ", ".join(["1"] * len(shape))
        self.lines.append(
            f"{found} = tensor.extract_slice {value}[{offsets}] [{', '.join(map(str, shape))}]"
            f" [{ones}] : {self.kind((*self.spec.rows, count * self.spec.columns))}"
            f" to {self.kind(shape)}"
        )
        return found

    def contracted(self, state, count, first=0):
        """The product of a state and the weights of `count` gates."""
        spec = self.spec
        rows = [f"r{n}" for n in range(len(spec.rows))]
        dims = ", ".join([*rows, "n", "k"])
        maps = [", ".join([*rows, "k"]), "n, k", ", ".join([*rows, "n"])]
        texts = ", ".join(f"affine_map<({dims}) -> ({m})>" for m in maps)
        wide, columns = (*spec.rows, count * spec.columns), spec.columns
        weights, summed, found = self.name(), self.name(), self.name()
        self.lines.append(
            f"{weights} = tensor.extract_slice %w[{first * columns}, 0] [{count * columns},"
            f" {columns}] [1, 1] : {self.kind((GATES[spec.cell] * columns, columns))}"
            f" to {self.kind((count * columns, columns))}"
        )
        kinds = ", ".join(['"parallel"'] * (len(rows) + 1) + ['"reduction"'])
        cast, left, right = "", "%a0", "%a1"
        if spec.dtype != "f32":
            left, right = "%b0", "%b1"
            cast = "%b0 = arith.extf %a0 : T to f32 %b1 = arith.extf %a1 : T to f32 "
        self.lines.append(
            f"{summed}_e = tensor.empty() : {self.kind(wide, 'f32')} {summed}_z = linalg.fill"
            f" ins(%zero : f32) outs({summed}_e : {self.kind(wide, 'f32')}) ->"
            f" {self.kind(wide, 'f32')} {summed} = linalg.generic {{indexing_maps = [{texts}],"
            f" iterator_types = [{kinds}]}} ins({state}, {weights} : {self.kind(spec.shape)},"
            f" {self.kind((count * columns, columns))}) outs({summed}_z : {self.kind(wide, 'f32')})"
            f" {{ ^bb0(%a0: T, %a1: T, %o: f32): {cast}%p = arith.mulf {left}, {right} : f32"
            f" %s = arith.addf %o, %p : f32 linalg.yield %s : f32 }} -> {self.kind(wide, 'f32')}"
            .replace(": T", f": {spec.dtype}")
        )  # fmt: skip
        if spec.dtype == "f32":
            return summed
        dims = ", ".join(f"d{n}" for n in range(len(wide)))
        same = f"affine_map<({dims}) -> ({dims})>"
        self.lines.append(
            f"{found}_e = tensor.empty() : {self.kind(wide)} {found} = linalg.generic"
            f" {{indexing_maps = [{same}, {same}],"
            f" iterator_types = [{_parallel(len(wide))}]}}"
            f" ins({summed} : {self.kind(wide, 'f32')}) outs({found}_e : {self.kind(wide)})"
            f" {{ ^bb0(%a: f32, %o: {spec.dtype}): %q = arith.truncf %a : f32 to {spec.dtype}"
            f" linalg.yield %q : {spec.dtype} }} -> {self.kind(wide)}"
        )
        return found

    def given(self):
        """The slice of the input."""
        spec, found = self.spec, self.name()
        wide = GATES[spec.cell] * spec.columns
        zeros = ", ".join(["0"] * (len(spec.rows) + 1))
        sizes = ", ".join(map(str, (1, *spec.rows, wide)))
        ones = ", ".join(["1"] * (len(spec.rows) + 2))
        self.lines.append(
            f"{found} = tensor.extract_slice %x[%at, {zeros}] [{sizes}] [{ones}] :"
            f" {self.kind((spec.steps, *spec.rows, wide))} to {self.kind((*spec.rows, wide))}"
        )
        return found


def _cell(text, spec):
    """The new states, the first of which is stacked."""
    count = GATES[spec.cell]
    given = text.given()
    if spec.cell == "gate":
        g = text.sigmoid(text.part(given, 0, 1))
        return [text.add(text.mul(g, "%h"), text.tanh(g))]
    x = [text.part(given, n, count) for n in range(count)]
    if spec.cell == "gru_before":
        gates = text.contracted("%h", 2)
        r = text.sigmoid(text.add(x[0], text.part(gates, 0, 2)))
        u = text.sigmoid(text.add(x[1], text.part(gates, 1, 2)))
        n = text.tanh(text.add(x[2], text.contracted(text.mul(r, "%h"), 1, first=2)))
        return [text.add(n, text.mul(u, "%h"))]
    gates = text.contracted("%h", count)
    h = [text.part(gates, n, count) for n in range(count)]
    if spec.cell == "rnn":
        return [text.tanh(text.add(x[0], h[0]))]
    if spec.cell == "gru":
        r = text.sigmoid(text.add(x[0], h[0]))
        u = text.sigmoid(text.add(x[1], h[1]))
        return [text.add(text.tanh(text.add(x[2], text.mul(r, h[2]))), text.mul(u, "%h"))]
    i, f, g, o = (text.add(one, other) for one, other in zip(x, h, strict=True))
    c = text.add(text.mul(text.sigmoid(f), "%c"), text.mul(text.sigmoid(i), text.tanh(g)))
    return [text.mul(text.sigmoid(o), text.tanh(c)), c]


def recurrence_text(spec):
    """The module of a loop."""
    text = _Text(spec)
    new = _cell(text, spec)
    shape, kind = spec.shape, text.kind(spec.shape)
    names = ["%h", "%c"][: spec.states]
    types = [text.kind(s) for s in spec.shapes]
    stacked = text.kind((spec.steps, *shape))
    results = ", ".join([stacked, *[kind] * spec.states])
    carried = ", ".join(["%y = %ys", *(f"{n} = {n}0" for n in names)])
    number = "arith.subi %last, %step" if spec.backward else "arith.addi %step, %i0"
    zeros = ", ".join(["0"] * len(shape))
    sizes = ", ".join(map(str, (1, *shape)))
    ones = ", ".join(["1"] * (len(shape) + 1))
    given = ["%x", "%w", *(f"{n}0" for n in names)]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(given, types, strict=True))
    body = "\n      ".join(text.lines)
    found = ", ".join(f"%r#{n}" for n in range(spec.states + 1))
    return f"""
func.func @main({arguments}) -> ({results}) {{
  %i0 = arith.constant 0 : index
  %i1 = arith.constant 1 : index
  %end = arith.constant {spec.steps} : index
  %last = arith.constant {spec.steps - 1} : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : {spec.dtype}
  %ys = tensor.empty() : {stacked}
  %state = tensor.empty() : {kind}
  %r:{spec.states + 1} = scf.for %step = %i0 to %end step %i1 iter_args({carried}) -> ({results}) {{
      %at = {number} : index
      {body}
      %i = tensor.insert_slice {new[0]} into %y[%at, {zeros}] [{sizes}] [{ones}]
        : {kind} into {stacked}
      scf.yield {", ".join(["%i", *new])} : {results}
  }}
  return {found} : {results}
}}
"""


def expected(spec, x, w, *states):
    """The results in float64."""
    x, w, *states = (np.asarray(a, np.float64) for a in (x, w, *states))
    sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    count, outputs = GATES[spec.cell], np.zeros((spec.steps, *spec.shape))
    order = range(spec.steps)
    for n in reversed(order) if spec.backward else order:
        given = np.split(x[n], count, -1)
        h = states[0]
        parts = np.split(h @ w.T, count, -1)
        if spec.cell == "gate":
            g = sigmoid(given[0])
            states = [g * h + np.tanh(g)]
        elif spec.cell == "rnn":
            states = [np.tanh(given[0] + parts[0])]
        elif spec.cell in ("gru", "gru_before"):
            r, u = sigmoid(given[0] + parts[0]), sigmoid(given[1] + parts[1])
            inner = r * parts[2] if spec.cell == "gru" else (r * h) @ w[2 * spec.columns :].T
            states = [np.tanh(given[2] + inner) + u * h]
        else:
            i, f, g, o = (a + b for a, b in zip(given, parts, strict=True))
            c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
            states = [sigmoid(o) * np.tanh(c), c]
        outputs[n] = states[0]
    return [outputs, *states]
