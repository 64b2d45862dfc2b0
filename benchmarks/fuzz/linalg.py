"""Random functions of linalg on tensors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from benchmarks.fuzz.linalg_text import UNARY, LinalgText
from benchmarks.fuzz.text import INTEGERS, MAX_ELEMENTS, Shape, Text, Value, elements, tensor

_REDUCED = {
    "add": ("%r = arith.addf %i0, %o", 0.0),
    "max": ("%r = arith.maximumf %i0, %o", -math.inf),
    "square": ("%s = arith.mulf %i0, %i0; %r = arith.addf %s, %o", 0.0),
}
_REDUCED_INTEGERS = {
    "add": ("%r = arith.addi %i0, %o", 0.0),
    "max": ("%r = arith.maxsi %i0, %o", -100.0),
    "square": ("%s = arith.muli %i0, %i0; %r = arith.addi %s, %o", 0.0),
}
"""Bodies of reductions, as `LinalgText.body` parses them, with their initial values."""


def function(chance: random.Random, name: str, steps: int, *, dynamic: bool) -> str:
    """The text of a function of linalg, tensor and scf ops."""
    return _Linalg(chance, name, dynamic).build(steps)


class _Linalg(LinalgText):
    def reduced(self, x: Value, axes: Sequence[int], how: str) -> Value:
        t = x.dtype
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        text, start = (_REDUCED if x.is_float else _REDUCED_INTEGERS)[how]
        body = self.body(text, t)
        out = self.filled(shape, t, start)
        kinds = "".join("r" if a in axes else "p" for a in range(x.rank))
        kept = ", ".join(f"d{a}" for a in range(x.rank) if a not in axes)
        name = self.generic(
            [(x, self.dims(x.rank))], shape, t, body, kinds=kinds, out_map=kept or " ", out=out
        )
        return Value(name, shape, t)

    def spread(self, x: Value, y: Value, axes: Sequence[int], body: Sequence[str]) -> Value:
        """`body` over x and y, which lacks some axes of x."""
        kept = ", ".join(f"d{a}" for a in range(x.rank) if a not in axes)
        maps = [(x, self.dims(x.rank)), (y, kept)]
        return Value(self.generic(maps, x.shape, x.dtype, body), x.shape, x.dtype)

    def reduce(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and v.dtype != "i1")
        if x is None:
            return self.unary()
        axes = [a for a in range(x.rank) if self.chance.random() < 0.5] or [x.rank - 1]
        made = self.reduced(x, axes, self.chance.choice(("add", "max", "square")))
        if x.is_float:
            size = max(1, elements(tuple(x.shape[a] for a in axes)))
            scale = self.scalar(1 / size, x.dtype)
            body = self.body(f"%r = arith.mulf %i0, {scale}", x.dtype)
            name = self.generic([(made, self.dims(made.rank))], made.shape, x.dtype, body)
            made = Value(name, made.shape, x.dtype)
        return self.keep(made.name, made.shape, made.dtype)

    def softmax(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and v.is_float)
        if x is None:
            return self.unary()
        if self.chance.random() < 0.3:
            axis, name = self.chance.randrange(x.rank), self.fresh()
            out = self.empty(x.shape, x.dtype)
            self.emit(
                f"{name} = linalg.softmax dimension({axis}) ins({x.name} : {x.type})"
                f" outs({out} : {x.type}) -> {x.type}"
            )
            return self.keep(name, x.shape, x.dtype)
        made = self.softmax_of(x)
        return self.keep(made.name, made.shape, made.dtype) + 2

    def softmax_of(self, x: Value) -> Value:
        t, axes = x.dtype, [x.rank - 1]
        top = self.reduced(x, axes, "max")
        body = self.body("%s = arith.subf %i0, %i1; %r = math.exp %s", t)
        powers = self.spread(x, top, axes, body)
        total = self.reduced(powers, axes, "add")
        return self.spread(powers, total, axes, self.body("%r = arith.divf %i0, %i1", t))

    def norm(self) -> int:
        x = self.pick(lambda v: v.rank > 1 and v.is_float and v.shape[-1] not in (0, None))
        if x is None:
            return self.unary()
        made = self.normed(x)
        return self.keep(made.name, made.shape, made.dtype) + 2

    def normed(self, x: Value) -> Value:
        t, axes, size = x.dtype, [x.rank - 1], x.shape[-1]
        count, epsilon = self.scalar(float(size or 1), t), self.scalar(1e-2, t)
        centered = x
        if self.chance.random() < 0.5:
            total = self.reduced(x, axes, "add")
            body = self.body(f"%m = arith.divf %i1, {count}; %r = arith.subf %i0, %m", t)
            centered = self.spread(x, total, axes, body)
        squares = self.reduced(centered, axes, "square")
        text = f"%m = arith.divf %i1, {count}; %p = arith.addf %m, {epsilon}; %q = math.rsqrt %p"
        body = self.body(f"{text}; %r = arith.mulf %i0, %q", t)
        made = self.spread(centered, squares, axes, body)
        if self.chance.random() < 0.5:
            gamma = self.argument((size,), t)
            maps = [(made, self.dims(x.rank)), (gamma, f"d{x.rank - 1}")]
            name = self.generic(maps, x.shape, t, self.body("%r = arith.mulf %i0, %i1", t))
            made = Value(name, x.shape, t)
        return made

    def layer(self, x: Value) -> Value:
        t, maps = x.dtype, self.dims(x.rank)
        found = self.normed(x) if self.chance.random() < 0.6 else x
        if self.chance.random() < 0.7:
            found = self.product(found, self.argument((x.shape[1], x.shape[1]), t))
        if self.chance.random() < 0.4:
            found = self.softmax_of(found)
        body = self.body(self.chance.choice(UNARY), t)
        found = Value(self.generic([(found, maps)], x.shape, t, body), x.shape, t)
        body = self.body("%s = arith.addf %i0, %i1; %r = arith.mulf %s, HALF", t)
        return Value(self.generic([(x, maps), (found, maps)], x.shape, t, body), x.shape, t)

    def matmul(self) -> int:
        x = self.pick(lambda v: v.rank in (2, 3) and v.dtype not in ("i1", "i8", "i64"))
        if x is None:
            return self.unary()
        made = self.product(x, self.argument((*x.shape[:-2], x.shape[-1], self.columns()), x.dtype))
        if self.chance.random() < 0.5:
            bias = self.argument(made.shape[-1:], made.dtype)
            op = "addf" if made.is_float else "addi"
            maps = [(made, self.dims(made.rank)), (bias, f"d{made.rank - 1}")]
            body = self.body(f"%r = arith.{op} %i0, %i1", made.dtype)
            made = Value(self.generic(maps, made.shape, made.dtype, body), made.shape, made.dtype)
        return self.keep(made.name, made.shape, made.dtype) + 1

    def product(self, x: Value, y: Value) -> Value:
        """A matmul over the last axis of x, scaled to keep values small."""
        shape, t = (*x.shape[:-1], y.shape[-1]), x.dtype
        op = "linalg.matmul" if x.rank == 2 else "linalg.batch_matmul"
        out, name = self.filled(shape, t, 0), self.fresh()
        kind = tensor(shape, t)
        self.emit(
            f"{name} = {op} ins({x.name}, {y.name} : {x.type}, {y.type})"
            f" outs({out} : {kind}) -> {kind}"
        )
        made = Value(name, shape, t)
        if not x.is_float:
            return made
        scale = self.scalar(1 / max(1, elements(x.shape[-1:])) ** 0.5, t)
        body = self.body(f"%r = arith.mulf %i0, {scale}", t)
        return Value(self.generic([(made, self.dims(x.rank))], shape, t, body), shape, t)

    def attention(self) -> int:
        q = self.pick(lambda v: v.rank == 3 and v.is_float and None not in v.shape)
        if q is None:
            return self.matmul()
        heads, _, depth = q.shape
        length = self.columns()
        key = self.argument((heads, length, depth), q.dtype)
        scores = self.product(q, self.transposed(key, (0, 2, 1)))
        weights = self.softmax_of(scores)
        made = self.product(weights, self.argument((heads, length, depth), q.dtype))
        return self.keep(made.name, made.shape, made.dtype) + 4

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        shape = tuple(x.shape[a] for a in order)
        out, name = self.empty(shape, x.dtype), self.fresh()
        self.emit(
            f"{name} = linalg.transpose ins({x.name} : {x.type}) outs({out} :"
            f" {tensor(shape, x.dtype)}) permutation = [{', '.join(map(str, order))}]"
        )
        return Value(name, shape, x.dtype)

    def reshape(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and None not in v.shape)
        if x is None:
            return self.unary()
        name = self.fresh()
        at = self.chance.randrange(x.rank)
        if x.rank > 1 and self.chance.random() < 0.5:
            at = max(at, 1)
            groups = [*[[a] for a in range(at - 1)], [at - 1, at]]
            groups += [[a] for a in range(at + 1, x.rank)]
            merged = elements(x.shape[at - 1 : at + 1])
            shape: Shape = (*x.shape[: at - 1], merged, *x.shape[at + 1 :])
            self.emit(
                f"{name} = tensor.collapse_shape {x.name} {groups} : {x.type} into"
                f" {tensor(shape, x.dtype)}"
            )
            return self.keep(name, shape, x.dtype)
        size = x.shape[at] or 0
        parts = [n for n in range(1, size + 1) if size % n == 0] or [1]
        first = self.chance.choice(parts)
        shape = (*x.shape[:at], first, size // first, *x.shape[at + 1 :])
        if len(shape) > 5:
            return self.unary()
        groups = [*[[a] for a in range(at)], [at, at + 1]]
        groups += [[a + 1] for a in range(at + 1, x.rank)]
        self.emit(
            f"{name} = tensor.expand_shape {x.name} {groups} output_shape"
            f" [{', '.join(map(str, shape))}] : {x.type} into {tensor(shape, x.dtype)}"
        )
        return self.keep(name, shape, x.dtype)

    def slice(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and None not in v.shape and 0 not in v.shape)
        if x is None:
            return self.unary()
        offsets, sizes, strides = [], [], []
        for n in x.shape:
            assert n is not None
            offset = self.chance.randrange(n) if self.chance.random() < 0.5 else 0
            stride = self.chance.choice((1, 1, 1, 2))
            offsets.append(offset)
            strides.append(stride)
            sizes.append(self.chance.randint(1, (n - offset + stride - 1) // stride))
        name = self.fresh()
        shape = tuple(sizes)
        self.emit(
            f"{name} = tensor.extract_slice {x.name}{offsets} {sizes} {strides} : {x.type} to"
            f" {tensor(shape, x.dtype)}"
        )
        return self.keep(name, shape, x.dtype)

    def concat(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and None not in v.shape)
        if x is None or elements(x.shape) * 2 > MAX_ELEMENTS:
            return self.unary()
        axis, name = self.chance.randrange(x.rank), self.fresh()
        y = self.pick(lambda v: v.shape == x.shape and v.dtype == x.dtype) or x
        shape = tuple(2 * (n or 0) if a == axis else n for a, n in enumerate(x.shape))
        self.emit(
            f"{name} = tensor.concat dim({axis}) {x.name}, {y.name} : ({x.type}, {y.type}) ->"
            f" {tensor(shape, x.dtype)}"
        )
        return self.keep(name, shape, x.dtype)

    def pad(self) -> int:
        x = self.pick(lambda v: v.rank > 0 and None not in v.shape)
        if x is None or elements(x.shape) * 2 > MAX_ELEMENTS:
            return self.unary()
        low = [self.chance.randint(0, 1) for _ in x.shape]
        high = [self.chance.randint(0, 1) for _ in x.shape]
        shape = tuple((n or 0) + a + b for n, a, b in zip(x.shape, low, high, strict=True))
        value, name = self.scalar(0, x.dtype), self.fresh()
        indices = ", ".join(f"%p{a}: index" for a in range(x.rank))
        self.emit(
            f"{name} = tensor.pad {x.name} low{low} high{high} {{\n"
            f"^bb0({indices}):\n  tensor.yield {value} : {x.dtype}\n"
            f"}} : {x.type} to {tensor(shape, x.dtype)}"
        )
        return self.keep(name, shape, x.dtype)

    def gather(self) -> int:
        x = self.pick(lambda v: v.rank == 2 and None not in v.shape and 0 not in v.shape)
        if x is None:
            return self.unary()
        rows = self.columns()
        ids = self.argument((rows,), "i32")
        limit = self.scalar(x.shape[0] or 1, "i32")
        body = [
            f"%m = arith.remui %i0, {limit} : i32",
            "%row = arith.index_castui %m : i32 to index",
            "%column = linalg.index 1 : index",
            f"%r = tensor.extract {x.name}[%row, %column] : {x.type}",
            "%r",
        ]
        shape = (rows, x.shape[1])
        return self.keep(self.generic([(ids, "d0")], shape, x.dtype, body), shape, x.dtype)

    def constant(self) -> int:
        x = self.pick(lambda v: v.is_float and None not in v.shape and 0 < elements(v.shape) <= 64)
        if x is None:
            return self.unary()
        numbers = [f"{self.chance.uniform(-1, 1):.3f}" for _ in range(elements(x.shape))]
        for n in reversed(x.shape):
            rows = [numbers[i : i + (n or 1)] for i in range(0, len(numbers), n or 1)]
            numbers = [f"[{', '.join(row)}]" for row in rows]
        name = self.fresh()
        if self.chance.random() < 0.3:
            symbol = f"@{self.name}_{self.count}"
            self.globals.append(f"util.global private {symbol} = dense<{numbers[0]}> : {x.type}\n")
            self.emit(f"{name} = util.global.load {symbol} : {x.type}")
        else:
            self.emit(f"{name} = arith.constant dense<{numbers[0]}> : {x.type}")
        return self.keep(name, x.shape, x.dtype)

    def control(self) -> int:
        """A loop or a branch around elementwise ops."""
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return self.unary()
        name, t = self.fresh(), x.dtype
        body = self.body("%h = math.tanh %i0; %r = arith.addf %h, HALF", t)
        kind = self.chance.choice(("if", "for", "while"))
        if kind == "if":
            flag = self.argument((), "i1")
            bit = self.fresh()
            self.emit(f"{bit} = tensor.extract {flag.name}[] : tensor<i1>")
            self.emit(f"{name} = scf.if {bit} -> ({x.type}) {{")
            inner = self.generic([(x, self.dims(x.rank))], x.shape, t, body)
            self.emit(
                f"scf.yield {inner} : {x.type}\n}} else {{\nscf.yield {x.name} : {x.type}\n}}"
            )
            return self.keep(name, x.shape, t)
        start, end, step = (self.fresh() for _ in range(3))
        for index, number in zip(
            (start, end, step), (0, self.chance.randint(0, 3), 1), strict=True
        ):
            self.emit(f"{index} = arith.constant {number} : index")
        carried = Value(f"{name}c", x.shape, t)
        if kind == "for":
            self.emit(
                f"{name} = scf.for {name}i = {start} to {end} step {step}"
                f" iter_args({carried.name} = {x.name}) -> ({x.type}) {{"
            )
            inner = self.generic([(carried, self.dims(x.rank))], x.shape, t, body)
            self.emit(f"scf.yield {inner} : {x.type}\n}}")
            return self.keep(name, x.shape, t)
        self.emit(
            f"{name}:2 = scf.while ({name}i = {start}, {name}a = {x.name}) : (index, {x.type}) ->"
            f" (index, {x.type}) {{\n"
            f"{name}t = arith.cmpi slt, {name}i, {end} : index\n"
            f"scf.condition({name}t) {name}i, {name}a : index, {x.type}\n}} do {{\n"
            f"^bb0({name}j: index, {carried.name}: {x.type}):\n"
            f"{name}n = arith.addi {name}j, {step} : index"
        )
        inner = self.generic([(carried, self.dims(x.rank))], x.shape, t, body)
        self.emit(f"scf.yield {name}n, {inner} : index, {x.type}\n}}")
        return self.keep(f"{name}#1", x.shape, t)

    def integers(self) -> int:
        """A new argument of integers."""
        shape = self.shape()
        dtype = self.chance.choice((*INTEGERS, "i1"))
        value = self.argument(shape, dtype)
        self.values.append(value)
        return 1

    steps = (
        *(LinalgText.unary, LinalgText.unary, LinalgText.unary),
        *(LinalgText.binary, LinalgText.binary, LinalgText.binary, LinalgText.binary),
        *(
            LinalgText.select,
            LinalgText.cast,
            reduce,
            reduce,
            softmax,
            softmax,
            norm,
            norm,
            Text.layers,
        ),
        *(matmul, matmul, attention, Text.transpose, reshape, slice),
        *(concat, pad, gather, constant, control, integers),
    )
