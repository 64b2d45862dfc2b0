"""Random functions of StableHLO."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from benchmarks.fuzz.text import FLOATS, INTEGERS, MAX_ELEMENTS, Shape, Text, Value, elements

_UNARY = ("tanh", "negate", "abs", "logistic", "cosine", "sine", "exponential", "sqrt", "rsqrt")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
_BINARY_INTEGERS = ("add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor")
_BINARY_BITS = ("and", "or", "xor")
_NEG_INF = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
"""Element type -> negative infinity in MLIR's spelling."""


def _static(value: Value) -> bool:
    return None not in value.shape


def function(chance: random.Random, name: str, steps: int, *, dynamic: bool) -> str:
    """The text of a function of StableHLO ops."""
    return _StableHlo(chance, name, dynamic).build(steps)


class _StableHlo(Text):
    def op(self, name: str, arguments: str, ins: Sequence[Value], out: Value) -> Value:
        """`out = stablehlo.name arguments : (types of ins) -> type of out`."""
        types = ", ".join(v.type for v in ins)
        self.emit(f"{out.name} = stablehlo.{name} {arguments} : ({types}) -> {out.type}")
        return out

    def same(self, name: str, *ins: Value) -> Value:
        """An op of one type."""
        out = Value(self.fresh(), ins[0].shape, ins[0].dtype)
        names = ", ".join(v.name for v in ins)
        self.emit(f"{out.name} = stablehlo.{name} {names} : {out.type}")
        return out

    def kept(self, value: Value) -> int:
        return self.keep(value.name, value.shape, value.dtype)

    def number(self, number: float, dtype: str, shape: Shape = ()) -> Value:
        """A constant with equal elements."""
        out = Value(self.fresh(), shape, dtype)
        if dtype == "i1":
            shown = "true" if number else "false"
        elif dtype not in FLOATS:
            shown = str(int(number))
        else:
            shown = _NEG_INF[dtype] if number == -math.inf else f"{number:e}"
        self.emit(f"{out.name} = stablehlo.constant dense<{shown}> : {out.type}")
        return out

    def spread(self, x: Value, dims: Sequence[int], shape: Shape) -> Value:
        """X in a larger shape: its axes become `dims`."""
        out = Value(self.fresh(), shape, x.dtype)
        return self.op("broadcast_in_dim", f"{x.name}, dims = {list(dims)}", [x], out)

    def reduced(self, x: Value, axes: Sequence[int], how: str) -> Value:
        start = {"add": 0.0, "maximum": -math.inf if x.is_float else -100.0}[how]
        init = self.number(start, x.dtype)
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        out = Value(self.fresh(), shape, x.dtype)
        self.emit(
            f"{out.name} = stablehlo.reduce({x.name} init: {init.name}) applies stablehlo.{how}"
            f" across dimensions = {list(axes)} : ({x.type}, {init.type}) -> {out.type}"
        )
        return out

    def mapped(self, x: Value) -> Value:
        """X through tanh, which keeps values small, and something else."""
        return self.same(self.chance.choice(("tanh", "abs", "negate", "logistic")), self.tame(x))

    def tame(self, x: Value) -> Value:
        return self.same("tanh", x)

    # --- steps -----------------------------------------------------------------------------------

    def unary(self) -> int:
        x = self.pick(lambda v: True)
        assert x is not None
        if x.dtype == "i1":
            return self.kept(self.same("not", x))
        if not x.is_float:
            return self.kept(self.same(self.chance.choice(("negate", "abs", "not")), x))
        name = self.chance.choice(_UNARY)
        if name in ("exponential", "sine", "cosine"):
            x = self.same("tanh", x)
        elif name in ("sqrt", "rsqrt"):
            x = self.same("exponential", self.same("tanh", x))
        return self.kept(self.same(name, x))

    def binary(self) -> int:
        x = self.pick(lambda v: True)
        assert x is not None
        y = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        if _static(x) and (y is None or self.chance.random() < 0.4):
            axes = [a for a in range(x.rank) if self.chance.random() < 0.5]
            if self.chance.random() < 0.3:
                self.chance.shuffle(axes)
            row = self.argument(tuple(x.shape[a] for a in axes), x.dtype)
            y = self.spread(row, axes, x.shape)
        pair = (x, y or x)
        if not x.is_float:
            names = _BINARY_BITS if x.dtype == "i1" else _BINARY_INTEGERS
            return self.kept(self.same(self.chance.choice(names), *pair))
        name = self.chance.choice(_BINARY)
        if name in ("multiply", "divide"):
            small = self.same("logistic" if name == "divide" else "tanh", pair[1])
            return self.kept(self.same(name, pair[0], small))
        return self.kept(self.same(name, *pair))

    def select(self) -> int:
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return self.unary()
        y = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape) or x
        out = Value(self.fresh(), x.shape, x.dtype)
        ids = self.argument(x.shape, "i32")
        bits = self.compared("LT", ids, self.same("abs", self.argument(x.shape, "i32")))
        self.emit(
            f"{out.name} = stablehlo.select {bits.name}, {x.name}, {y.name} : {bits.type}, {x.type}"
        )
        return self.kept(out)

    def compared(self, how: str, x: Value, y: Value) -> Value:
        out = Value(self.fresh(), x.shape, "i1")
        return self.op("compare", f"{how}, {x.name}, {y.name}", [x, y], out)

    def convert(self) -> int:
        x = self.pick(lambda v: v.is_float or v.dtype in ("i1", "i8"))
        if x is None:
            return self.unary()
        to = self.chance.choice([t for t in ("f32", "f16", "bf16", "f64") if t != x.dtype])
        if not x.is_float:
            to = self.chance.choice(("f32", "i32"))
        return self.kept(self.op("convert", x.name, [x], Value(self.fresh(), x.shape, to)))

    def reduce(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and v.dtype != "i1")
        if x is None:
            return self.unary()
        axes = [a for a in range(x.rank) if self.chance.random() < 0.5] or [x.rank - 1]
        if x.is_float:
            x = self.tame(x)
        return self.kept(self.reduced(x, axes, self.chance.choice(("add", "maximum"))))

    def softmax(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and v.is_float and _static(v))
        if x is None:
            return self.unary()
        return self.kept(self.softmax_of(x, self.chance.randrange(x.rank))) + 2

    def softmax_of(self, x: Value, axis: int) -> Value:
        kept = [a for a in range(x.rank) if a != axis]
        top = self.spread(self.reduced(x, [axis], "maximum"), kept, x.shape)
        powers = self.same("exponential", self.same("subtract", x, top))
        total = self.spread(self.reduced(powers, [axis], "add"), kept, x.shape)
        return self.same("divide", powers, total)

    def norm(self) -> int:
        x = self.pick(lambda v: v.rank > 1 and v.is_float and _static(v) and 0 not in v.shape)
        if x is None:
            return self.unary()
        return self.kept(self.normed(x)) + 2

    def normed(self, x: Value) -> Value:
        t, axis, kept = x.dtype, x.rank - 1, list(range(x.rank - 1))
        count = self.number(float(x.shape[-1] or 1), t, x.shape[:-1])
        centered = x
        if self.chance.random() < 0.5:
            mean = self.same("divide", self.reduced(x, [axis], "add"), count)
            centered = self.same("subtract", x, self.spread(mean, kept, x.shape))
        squares = self.reduced(self.same("multiply", centered, centered), [axis], "add")
        variance = self.same("divide", squares, count)
        epsilon = self.number(1e-2, t, x.shape[:-1])
        factor = self.same("rsqrt", self.same("add", variance, epsilon))
        made = self.same("multiply", centered, self.spread(factor, kept, x.shape))
        if self.chance.random() < 0.5:
            gamma = self.spread(self.argument(x.shape[-1:], t), [axis], x.shape)
            made = self.same("multiply", made, gamma)
        return made

    def layer(self, x: Value) -> Value:
        found = self.normed(x) if self.chance.random() < 0.6 else x
        if self.chance.random() < 0.7:
            found = self.product(found, self.argument((x.shape[1], x.shape[1]), x.dtype), 0)
        if self.chance.random() < 0.4:
            found = self.softmax_of(found, 1)
        mixed = self.same("add", x, self.mapped(found))
        return self.same("multiply", mixed, self.number(0.5, x.dtype, x.shape))

    def product(self, x: Value, y: Value, batch: int) -> Value:
        """X times y over the last axis of x and the one after the batch of y."""
        shape = (*x.shape[:-1], *y.shape[batch + 1 :])
        dims = list(range(batch))
        batching = f", batching_dims = {dims} x {dims}" if batch else ""
        made = self.op(
            "dot_general",
            f"{x.name}, {y.name}{batching}, contracting_dims = [{x.rank - 1}] x [{batch}]",
            [x, y],
            Value(self.fresh(), shape, x.dtype),
        )
        if not x.is_float:
            return made
        scale = self.number(1 / max(1, x.shape[-1] or 1) ** 0.5, x.dtype, shape)
        return self.same("multiply", made, scale)

    def dot(self) -> int:
        x = self.pick(lambda v: v.rank in (2, 3) and v.dtype in (*FLOATS, "i32") and _static(v))
        if x is None:
            return self.unary()
        batch = self.chance.randint(0, x.rank - 2)
        y = self.argument((*x.shape[:batch], x.shape[-1], self.columns()), x.dtype)
        made = self.product(x, y, batch)
        if self.chance.random() < 0.5:
            bias = self.argument(made.shape[-1:], made.dtype)
            made = self.same("add", made, self.spread(bias, [made.rank - 1], made.shape))
        return self.kept(made)

    def attention(self) -> int:
        q = self.pick(lambda v: v.rank == 3 and v.is_float and _static(v))
        if q is None:
            return self.dot()
        heads, _, depth = q.shape
        length = self.columns()
        key = self.transposed(self.argument((heads, length, depth), q.dtype), (0, 2, 1))
        weights = self.softmax_of(self.product(q, key, 1), 2)
        value = self.argument((heads, length, depth), q.dtype)
        return self.kept(self.product(weights, value, 1)) + 4

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        out = Value(self.fresh(), tuple(x.shape[a] for a in order), x.dtype)
        return self.op("transpose", f"{x.name}, dims = {list(order)}", [x], out)

    def reshape(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and _static(v))
        if x is None:
            return self.unary()
        at = self.chance.randrange(x.rank)
        size = x.shape[at] or 0
        parts = [n for n in range(1, size + 1) if size % n == 0] or [1]
        first = self.chance.choice(parts)
        shape: Shape = (*x.shape[:at], first, size // first, *x.shape[at + 1 :])
        if len(shape) > 5 or self.chance.random() < 0.4:
            shape = (elements(x.shape),)
        return self.kept(self.op("reshape", x.name, [x], Value(self.fresh(), shape, x.dtype)))

    def slice(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and _static(v) and 0 not in v.shape)
        if x is None:
            return self.unary()
        ranges, shape = [], []
        for n in x.shape:
            first, step = self.chance.randrange(n or 1), self.chance.choice((1, 1, 1, 2))
            last = self.chance.randint(first + 1, n or 1)
            ranges.append(f"{first}:{last}:{step}")
            shape.append((last - first + step - 1) // step)
        out = Value(self.fresh(), tuple(shape), x.dtype)
        return self.kept(self.op("slice", f"{x.name} [{', '.join(ranges)}]", [x], out))

    def dynamic_slice(self) -> int:
        """A slice, or an update of one, at offsets that are arguments."""
        x = self.pick(lambda v: v.rank > 0 and _static(v) and 0 not in v.shape)
        if x is None:
            return self.unary()
        places = [self.argument((), "i32") for _ in x.shape]
        names = ", ".join(v.name for v in places)
        sizes = tuple(self.chance.randint(1, n or 1) for n in x.shape)
        if self.chance.random() < 0.5:
            out = Value(self.fresh(), sizes, x.dtype)
            text = f"{x.name}, {names}, sizes = {list(sizes)}"
            return self.kept(self.op("dynamic_slice", text, [x, *places], out))
        new = self.argument(sizes, x.dtype)
        out = Value(self.fresh(), x.shape, x.dtype)
        text = f"{x.name}, {new.name}, {names}"
        return self.kept(self.op("dynamic_update_slice", text, [x, new, *places], out))

    def concatenate(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and _static(v))
        if x is None or elements(x.shape) * 2 > MAX_ELEMENTS:
            return self.unary()
        axis = self.chance.randrange(x.rank)
        y = self.pick(lambda v: v.shape == x.shape and v.dtype == x.dtype) or x
        shape = tuple(2 * (n or 0) if a == axis else n for a, n in enumerate(x.shape))
        out = Value(self.fresh(), shape, x.dtype)
        return self.kept(self.op("concatenate", f"{x.name}, {y.name}, dim = {axis}", [x, y], out))

    def pad(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and _static(v))
        if x is None or elements(x.shape) * 4 > MAX_ELEMENTS:
            return self.unary()
        low, high, inner = ([self.chance.randint(0, 1) for _ in x.shape] for _ in range(3))
        if self.chance.random() < 0.6:
            inner = [0] * x.rank
        shape = tuple(
            (n or 0) + a + b + c * max(0, (n or 0) - 1)
            for n, a, b, c in zip(x.shape, low, high, inner, strict=True)
        )
        value, out = self.number(0, x.dtype), Value(self.fresh(), shape, x.dtype)
        text = f"{x.name}, {value.name}, low = {low}, high = {high}, interior = {inner}"
        return self.kept(self.op("pad", text, [x, value], out))

    def gather(self) -> int:
        x = self.pick(lambda v: v.rank == 2 and _static(v) and 0 not in v.shape)
        if x is None:
            return self.unary()
        ids = self.argument((self.columns(), 1), "i32")
        # IREE does not clamp them.
        ids = self.same("minimum", ids, self.number((x.shape[0] or 1) - 1, "i32", ids.shape))
        out = Value(self.fresh(), (ids.shape[0], x.shape[1]), x.dtype)
        self.emit(
            f'{out.name} = "stablehlo.gather"({x.name}, {ids.name}) {{dimension_numbers ='
            " #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map ="
            f" [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {x.shape[1]}>}} :"
            f" ({x.type}, {ids.type}) -> {out.type}"
        )
        return self.kept(out)

    def constant(self) -> int:
        x = self.pick(lambda v: v.is_float and _static(v) and 0 < elements(v.shape) <= 64)
        if x is None:
            return self.unary()
        numbers = [f"{self.chance.uniform(-1, 1):.3f}" for _ in range(elements(x.shape))]
        for n in reversed(x.shape):
            rows = [numbers[i : i + (n or 1)] for i in range(0, len(numbers), n or 1)]
            numbers = [f"[{', '.join(row)}]" for row in rows]
        out = Value(self.fresh(), x.shape, x.dtype)
        self.emit(f"{out.name} = stablehlo.constant dense<{numbers[0]}> : {x.type}")
        return self.kept(out)

    def control(self) -> int:
        """A loop or a branch around elementwise ops."""
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return self.unary()
        out = Value(self.fresh(), x.shape, x.dtype)
        if self.chance.random() < 0.5:
            flag = self.argument((), "i1")
            self.emit(f'{out.name} = "stablehlo.if"({flag.name}) ({{')
            inner = self.mapped(x)
            self.emit(
                f"stablehlo.return {inner.name} : {x.type}\n}}, {{\n"
                f"stablehlo.return {x.name} : {x.type}\n}}) : ({flag.type}) -> {x.type}"
            )
            return self.kept(out)
        zero, one = self.number(0, "i32"), self.number(1, "i32")
        end = self.number(self.chance.randint(0, 3), "i32")
        i, carried = Value(f"{out.name}i", (), "i32"), Value(f"{out.name}c", x.shape, x.dtype)
        self.emit(
            f"{out.name}:2 = stablehlo.while({i.name} = {zero.name}, {carried.name} = {x.name}) :"
            f" {i.type}, {x.type} cond {{"
        )
        more = self.compared("LT", i, end)
        self.emit(f"stablehlo.return {more.name} : {more.type}\n}} do {{")
        after, inner = self.same("add", i, one), self.mapped(carried)
        self.emit(f"stablehlo.return {after.name}, {inner.name} : {i.type}, {x.type}\n}}")
        return self.keep(f"{out.name}#1", x.shape, x.dtype)

    def called(self) -> int:
        """Two calls of a function."""
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return self.unary()
        symbol = f"@{self.name}_inner{self.count}"
        self.globals.append(
            f"func.func private {symbol}(%x: {x.type}) -> {x.type} {{\n"
            f"  %y = stablehlo.tanh %x : {x.type}\n  return %y : {x.type}\n}}\n"
        )
        for _ in range(2):
            name = self.fresh()
            self.emit(f"{name} = func.call {symbol}({x.name}) : ({x.type}) -> {x.type}")
            x = Value(name, x.shape, x.dtype)
        return self.kept(x)

    def integers(self) -> int:
        """A new argument of integers."""
        dtype = self.chance.choice((*INTEGERS, "i1"))
        self.values.append(self.argument(self.shape(), dtype))
        return 1

    steps = (
        *(unary, unary, unary, binary, binary, binary, binary),
        *(select, convert, reduce, reduce, softmax, norm, norm, Text.layers),
        *(dot, dot, attention, Text.transpose, reshape, slice, dynamic_slice),
        *(concatenate, pad, gather, constant, control, called, integers),
    )
