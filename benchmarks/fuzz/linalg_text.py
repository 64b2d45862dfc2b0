"""Text of linalg ops, and elementwise steps of random functions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from benchmarks.fuzz.text import FLOATS, Shape, Text, Value, tensor

_NEG_INF = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
"""Element type -> negative infinity in MLIR's spelling."""

UNARY = (
    "%r = math.tanh %i0",
    "%r = arith.negf %i0",
    "%r = math.absf %i0",
    "%r = arith.maximumf %i0, ZERO",
    "%c = arith.minimumf %i0, ONE; %r = math.exp %c",
    "%n = arith.negf %i0; %e = math.exp %n; %d = arith.addf %e, ONE; %r = arith.divf ONE, %d",
    "%s = arith.mulf %i0, %i0; %p = arith.addf %s, ONE; %r = math.rsqrt %p",
    "%a = math.absf %i0; %r = math.sqrt %a",
    "%r = arith.mulf %i0, HALF",
    "%e = math.erf %i0; %p = arith.addf %e, ONE; %h = arith.mulf %p, HALF; %r = arith.mulf %h, %i0",
)
_UNARY_BITS = ("%r = arith.xori %i0, ONE",)
_UNARY_INTEGERS = (
    "%r = arith.addi %i0, ONE",
    "%r = arith.xori %i0, ONE",
    "%r = arith.shrsi %i0, ONE",
)
_BINARY = (
    "%s = arith.addf %i0, %i1; %r = arith.mulf %s, HALF",
    "%s = arith.subf %i0, %i1; %r = arith.mulf %s, HALF",
    "%r = arith.addf %i0, %i1",
    "%h = math.tanh %i1; %r = arith.mulf %i0, %h",
    "%r = arith.maximumf %i0, %i1",
    "%r = arith.minimumf %i0, %i1",
    "%a = math.absf %i1; %d = arith.addf %a, ONE; %r = arith.divf %i0, %d",
)
_BINARY_INTEGERS = tuple(
    f"%r = arith.{op} %i0, %i1" for op in ("addi", "subi", "muli", "maxsi", "minsi", "andi")
)
"""Bodies of elementwise ops, as `LinalgText.body` parses them."""


class LinalgText(Text):
    """A function of linalg ops with elementwise steps."""

    def scalar(self, number: float, dtype: str) -> str:
        """A constant."""
        name = self.fresh()
        if dtype == "i1":
            self.emit(f"{name} = arith.constant {'true' if number else 'false'}")
        else:
            if number == -math.inf:
                shown = _NEG_INF[dtype]
            else:
                shown = f"{number:e}" if dtype in FLOATS else str(int(number))
            self.emit(f"{name} = arith.constant {shown} : {dtype}")
        return name

    def empty(self, shape: Shape, dtype: str) -> str:
        """An empty tensor; a dynamic size is that of an argument."""
        sizes = [self.size() for n in shape if n is None]
        name = self.fresh()
        self.emit(f"{name} = tensor.empty({', '.join(sizes)}) : {tensor(shape, dtype)}")
        return name

    def size(self) -> str:
        """The dynamic size, which all dynamic dimensions share."""
        source = next(v for v in self.arguments if None in v.shape)
        axis, name = self.fresh(), self.fresh()
        self.emit(f"{axis} = arith.constant {source.shape.index(None)} : index")
        self.emit(f"{name} = tensor.dim {source.name}, {axis} : {source.type}")
        return name

    def filled(self, shape: Shape, dtype: str, number: float) -> str:
        """A tensor with equal elements."""
        scalar, empty, name = self.scalar(number, dtype), self.empty(shape, dtype), self.fresh()
        kind = tensor(shape, dtype)
        self.emit(f"{name} = linalg.fill ins({scalar} : {dtype}) outs({empty} : {kind}) -> {kind}")
        return name

    # --- ops -------------------------------------------------------------------------------------

    def generic(
        self,
        inputs: Sequence[tuple[Value, str]],
        shape: Shape,
        dtype: str,
        body: Sequence[str],
        *,
        kinds: str = "",
        out_map: str = "",
        out: str = "",
    ) -> str:
        """A linalg.generic; `body` uses %i0, %i1, ..., %o and ends with the name to yield."""
        loops = ", ".join(f"d{i}" for i in range(len(kinds) or len(shape)))
        out = out or self.empty(shape, dtype)
        maps = [f"affine_map<({loops}) -> ({m})>" for _, m in inputs]
        maps.append(f"affine_map<({loops}) -> ({out_map or loops})>")
        names = ["reduction" if k == "r" else "parallel" for k in kinds or "p" * len(shape)]
        iterators = ", ".join(f'"{n}"' for n in names)
        ins = ", ".join(v.name for v, _ in inputs)
        types = ", ".join(v.type for v, _ in inputs)
        scalars = ", ".join([f"%i{n}: {v.dtype}" for n, (v, _) in enumerate(inputs)])
        kind, name = tensor(shape, dtype), self.fresh()
        head = f"ins({ins} : {types}) " if inputs else ""
        self.emit(
            f"{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}],"
            f" iterator_types = [{iterators}]}}\n"
            f"    {head}outs({out} : {kind}) {{\n"
            f"^bb0({scalars}{', ' if inputs else ''}%o: {dtype}):\n"
            + "".join(f"  {line}\n" for line in body[:-1])
            + f"  linalg.yield {body[-1]} : {dtype}\n}} -> {kind}"
        )
        return name

    def dims(self, rank: int) -> str:
        """Results of an identity map."""
        return ", ".join(f"d{i}" for i in range(rank))

    def unary(self) -> int:
        """An elementwise op on one value."""
        x = self.pick(lambda v: True)
        assert x is not None
        t = x.dtype
        choices = UNARY if x.is_float else _UNARY_BITS if t == "i1" else _UNARY_INTEGERS
        body = self.body(self.chance.choice(choices), t)
        name = self.generic([(x, self.dims(x.rank))], x.shape, t, body)
        return self.keep(name, x.shape, t)

    def body(self, text: str, dtype: str) -> list[str]:
        """The lines of a body: ops of one type, separated by `;`, that end in %r."""
        for word, number in (("ZERO", 0.0), ("HALF", 0.5), ("ONE", 1.0)):
            if word in text:
                text = text.replace(word, self.scalar(number, dtype))
        return [*(f"{line.strip()} : {dtype}" for line in text.split(";")), "%r"]

    def binary(self) -> int:
        """An elementwise op on two values, one of which may be broadcast."""
        x = self.pick(lambda v: v.dtype != "i1")
        if x is None:
            return self.unary()
        y = self.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        axes = list(range(x.rank))
        if y is None or self.chance.random() < 0.4:
            axes = [a for a in axes if self.chance.random() < 0.5]
            if self.chance.random() < 0.3:
                self.chance.shuffle(axes)
            y = self.argument(tuple(x.shape[a] for a in axes), x.dtype)
        t = x.dtype
        body = self.body(self.chance.choice(_BINARY if x.is_float else _BINARY_INTEGERS), t)
        maps = [(x, self.dims(x.rank)), (y, ", ".join(f"d{a}" for a in axes))]
        if self.chance.random() < 0.3:
            names = {"%i0": "%i1", "%i1": "%i0"}
            body = [re.sub(r"%i[01]", lambda found: names[found[0]], line) for line in body]
            maps.reverse()
        return self.keep(self.generic(maps, x.shape, t, body), x.shape, t)

    def select(self) -> int:
        """A select by a mask that may be broadcast."""
        x = self.pick(lambda v: v.is_float)
        if x is None:
            return self.unary()
        axes = [a for a in range(x.rank) if self.chance.random() < 0.7]
        mask = self.argument(tuple(x.shape[a] for a in axes), "i1")
        zero = self.scalar(0, x.dtype)
        body = [f"%r = arith.select %i1, %i0, {zero} : {x.dtype}", "%r"]
        maps = [(x, self.dims(x.rank)), (mask, ", ".join(f"d{a}" for a in axes))]
        return self.keep(self.generic(maps, x.shape, x.dtype, body), x.shape, x.dtype)

    def cast(self) -> int:
        """A conversion of the element type."""
        x = self.pick(lambda v: True)
        assert x is not None
        bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
        if x.is_float:
            to = self.chance.choice([t for t in bits if bits[t] != bits[x.dtype]])
            op = "extf" if bits[to] > bits[x.dtype] else "truncf"
        elif x.dtype in ("i1", "i8"):
            to, op = self.chance.choice((("f32", "uitofp"), ("i32", "extui"), ("f16", "uitofp")))
        else:
            return self.unary()
        body = [f"%r = arith.{op} %i0 : {x.dtype} to {to}", "%r"]
        return self.keep(self.generic([(x, self.dims(x.rank))], x.shape, to, body), x.shape, to)
