"""Writes functions on tensors op by op, the way a PyTorch import looks.

A `Function` has a loop space of fixed sizes, None for a dynamic one. Each tensor is indexed by
some of the loops, in order; they determine the iteration space of an op and its indexing maps.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """An SSA value with the loops that index it."""

    name: str
    axes: tuple[int, ...]
    dtype: str


Scalar = float | Tensor


class Function:
    """One `func.func` that is being written."""

    def __init__(self, name: str, sizes: Sequence[int | None]) -> None:
        self.name = name
        self.sizes = tuple(sizes)
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.dims: dict[int, str] = {}
        self.count = 0

    def argument(self, axes: Sequence[int], dtype: str) -> Tensor:
        """A new argument."""
        tensor = Tensor(f"%arg{len(self.arguments)}", tuple(axes), dtype)
        self.arguments.append(f"{tensor.name}: {self.type(tensor)}")
        for position, axis in enumerate(tensor.axes):
            if self.sizes[axis] is None and axis not in self.dims:
                index = self._emit(f"arith.constant {position} : index")
                self.dims[axis] = self._emit(
                    f"tensor.dim {tensor.name}, {index} : {self.type(tensor)}"
                )
        return tensor

    def constant(self, axes: Sequence[int], dtype: str, data: bytes) -> Tensor:
        """A constant tensor with these elements."""
        tensor = Tensor(f"%v{self.count}", tuple(axes), dtype)
        self._emit(f'arith.constant dense<"0x{data.hex()}"> : {self.type(tensor)}')
        return tensor

    def type(self, tensor: Tensor) -> str:
        """The tensor's type."""
        sizes = ["?" if self.sizes[a] is None else str(self.sizes[a]) for a in tensor.axes]
        return f"tensor<{'x'.join([*sizes, tensor.dtype])}>"

    def apply(self, op: str, *operands: Scalar, axes: Iterable[int] | None = None) -> Tensor:
        """An elementwise op over the loops of its operands, or over `axes`; numbers are constants.

        `op` is an op of `arith` or `math`, or `copy` for a broadcast written out.
        """
        tensors = [o for o in operands if isinstance(o, Tensor)]
        dtype = tensors[0].dtype
        body = "" if op == "copy" else f"%r = {op} {{0}} : {dtype}\n    "
        return self._generic(body, "%a0" if op == "copy" else "%r", operands, dtype, axes)

    def power(self, tensor: Tensor, exponent: int) -> Tensor:
        """The tensor to an integral power, by `math.fpowi`."""
        body = f"%p = arith.constant {exponent} : i32\n    %r = math.fpowi {{0}}, %p"
        body += f" : {tensor.dtype}, i32\n    "
        return self._generic(body, "%r", (tensor,), tensor.dtype, None)

    def cast(self, tensor: Tensor, dtype: str, op: str = "") -> Tensor:
        """The tensor in another type, a floating-point one unless `op` is given."""
        if tensor.dtype == dtype:
            return tensor
        op = op or ("arith.extf" if dtype == "f32" else "arith.truncf")
        body = f"%r = {op} {{0}} : {tensor.dtype} to {dtype}\n    "
        return self._generic(body, "%r", (tensor,), dtype, None)

    def reduce(self, op: str, tensor: Tensor, axes: Iterable[int], init: float = 0.0) -> Tensor:
        """A reduction over some of the tensor's loops."""
        dropped = set(axes)
        dtype = tensor.dtype
        kept = tuple(a for a in tensor.axes if a not in dropped)
        zero = self._constant(init, dtype)
        shape = Tensor("", kept, dtype)
        filled = self._emit(
            f"linalg.fill ins({zero} : {dtype}) outs({self._empty(shape)} : {self.type(shape)})"
            f" -> {self.type(shape)}"
        )
        kinds = ["reduction" if a in dropped else "parallel" for a in tensor.axes]
        body = f"%r = {op} %a0, %out : {dtype}\n    "
        return self._write(body, "%r", [tensor], shape, filled, tensor.axes, kinds)

    def contract(self, a: Tensor, b: Tensor, axes: Sequence[int], sums: str = "") -> Tensor:
        """The sum of products over the loops of the operands that `axes` lacks, of type `sums`."""
        kind = sums or a.dtype
        shape = Tensor("", tuple(axes), kind)
        filled = self._filled(shape)
        summed = tuple(sorted({*a.axes, *b.axes} - set(axes)))
        kinds = ["parallel"] * len(axes) + ["reduction"] * len(summed)
        wide = [tensor.dtype != kind for tensor in (a, b)]
        casts = [
            f"%w{i} = arith.extf %a{i} : {tensor.dtype} to {kind}\n    "
            for i, tensor in enumerate((a, b))
            if wide[i]
        ]
        x, y = (f"%w{i}" if wide[i] else f"%a{i}" for i in range(2))
        body = (
            f"{''.join(casts)}%p = arith.mulf {x}, {y} : {kind}\n"
            f"    %r = arith.addf %p, %out : {kind}\n    "
        )
        return self._write(body, "%r", [a, b], shape, filled, (*axes, *summed), kinds)

    def batch_matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """The named op on `(batch, m, k)` and `(batch, k, n)`."""
        shape = Tensor("", (*a.axes[:2], b.axes[2]), a.dtype)
        filled = self._filled(shape)
        name = self._emit(
            f"linalg.batch_matmul ins({a.name}, {b.name} : {self.type(a)}, {self.type(b)})"
            f" outs({filled} : {self.type(shape)}) -> {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def convolve(
        self,
        x: Tensor,
        w: Tensor,
        axes: Sequence[int],
        windows: Mapping[int, tuple[int, int, int]],
        start: Tensor | None = None,
    ) -> Tensor:
        """The sum of products over the loops of the operands that `axes` lacks.

        `windows` has for an axis of `x` the loop of the result, that of the filter, and the stride.
        """
        shape = Tensor("", tuple(axes), x.dtype)
        filled = start.name if start else self._filled(shape)
        loops = [a for a in x.axes if a not in windows] + [
            a for w in windows.values() for a in w[:2]
        ]
        summed = tuple(sorted({*loops, *w.axes} - set(axes)))
        names = {axis: f"d{number}" for number, axis in enumerate((*axes, *summed))}
        spelled = {a: f"{names[o]} * {s} + {names[k]}" for a, (o, k, s) in windows.items()}
        maps = ", ".join(
            f"affine_map<({', '.join(names.values())}) ->"
            f" ({', '.join(spelled.get(a) or names[a] for a in t.axes)})>"
            for t in (x, w, shape)
        )
        kinds = ", ".join(['"parallel"'] * len(axes) + ['"reduction"'] * len(summed))
        name = self._emit(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
            f" ins({x.name}, {w.name} : {self.type(x)}, {self.type(w)})"
            f" outs({filled} : {self.type(shape)}) {{\n"
            f"  ^bb0(%a0: {x.dtype}, %a1: {x.dtype}, %out: {x.dtype}):\n"
            f"    %p = arith.mulf %a0, %a1 : {x.dtype}\n    %r = arith.addf %out, %p : {x.dtype}\n"
            f"    linalg.yield %r : {x.dtype}\n  }} -> {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def pad(self, tensor: Tensor, axes: Sequence[int], low: Sequence[int], value: float) -> Tensor:
        """The tensor with `low` values before each dimension, and as many after as `axes` ask."""
        shape = Tensor("", tuple(axes), tensor.dtype)
        pairs = [
            (before, (self.sizes[new] or 0) - (self.sizes[old] or 0) - before)
            for before, old, new in zip(low, tensor.axes, axes, strict=True)
        ]
        number = self._constant(value, tensor.dtype)
        indices = ", ".join(f"%i{n}: index" for n in range(len(axes)))
        name = self._emit(
            f"tensor.pad {tensor.name} low[{', '.join(str(b) for b, _ in pairs)}]"
            f" high[{', '.join(str(a) for _, a in pairs)}] {{\n  ^bb0({indices}):\n"
            f"    tensor.yield {number} : {tensor.dtype}\n  }}"
            f" : {self.type(tensor)} to {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def concat(self, parts: Sequence[Tensor], axis: int, axes: Sequence[int]) -> Tensor:
        """The parts one after another along dimension `axis`, indexed by `axes` together."""
        shape = Tensor("", tuple(axes), parts[0].dtype)
        name, offset = self._empty(shape), 0
        for part in parts:
            sizes = [
                self.dims[a] if self.sizes[a] is None else str(self.sizes[a]) for a in part.axes
            ]
            offsets = [str(offset) if d == axis else "0" for d in range(len(sizes))]
            name = self._emit(
                f"tensor.insert_slice {part.name} into {name}[{', '.join(offsets)}]"
                f" [{', '.join(sizes)}] [{', '.join('1' for _ in sizes)}]"
                f" : {self.type(part)} into {self.type(shape)}"
            )
            offset += self.sizes[part.axes[axis]] or 0
        return Tensor(name, shape.axes, shape.dtype)

    def reshape(self, tensor: Tensor, axes: Sequence[int], groups: str) -> Tensor:
        """A reshape between loops that are groups of each other."""
        shape = Tensor("", tuple(axes), tensor.dtype)
        wider = len(axes) > len(tensor.axes)
        op = "expand_shape" if wider else "collapse_shape"
        shown = [self.dims[a] if self.sizes[a] is None else str(self.sizes[a]) for a in axes]
        sizes = f" output_shape [{', '.join(shown)}]" if wider else ""
        name = self._emit(
            f"tensor.{op} {tensor.name} {groups}{sizes}"
            f" : {self.type(tensor)} into {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def part(self, tensor: Tensor, axis: int, offset: int) -> Tensor:
        """The indices of the last axis from `offset` on, as many as the loop `axis` has."""
        shape = Tensor("", (*tensor.axes[:-1], axis), tensor.dtype)
        sizes = [self.dims[a] if self.sizes[a] is None else str(self.sizes[a]) for a in shape.axes]
        offsets = ["0"] * (len(sizes) - 1) + [str(offset)]
        name = self._emit(
            f"tensor.extract_slice {tensor.name}[{', '.join(offsets)}] [{', '.join(sizes)}]"
            f" [{', '.join('1' for _ in sizes)}] : {self.type(tensor)} to {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def box(
        self,
        tensor: Tensor,
        axes: Sequence[int],
        offsets: Sequence[int],
        strides: Sequence[int] = (),
    ) -> Tensor:
        """The slice that the loops `axes` cover from the offsets on, at strides of one if none."""
        shape = Tensor("", tuple(axes), tensor.dtype)
        sizes = [self.dims[a] if self.sizes[a] is None else str(self.sizes[a]) for a in axes]
        name = self._emit(
            f"tensor.extract_slice {tensor.name}[{', '.join(map(str, offsets))}]"
            f" [{', '.join(sizes)}] [{', '.join(map(str, strides or [1] * len(sizes)))}]"
            f" : {self.type(tensor)} to {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def scan(self, op: str, tensor: Tensor, dimension: int) -> Tensor:
        """The cumulative op along a dimension, starting at zero."""
        rest = [a for d, a in enumerate(tensor.axes) if d != dimension]
        whole, last = self._filled(tensor), Tensor("", tuple(rest), tensor.dtype)
        start = self._filled(last)
        name = self._emit(
            f"iree_linalg_ext.scan dimension({dimension}) inclusive(true)"
            f" ins({tensor.name} : {self.type(tensor)})"
            f" outs({whole}, {start} : {self.type(tensor)}, {self.type(last)}) {{\n"
            f"  ^bb0(%a: {tensor.dtype}, %b: {tensor.dtype}):\n"
            f"    %s = {op} %a, %b : {tensor.dtype}\n"
            f"    iree_linalg_ext.yield %s : {tensor.dtype}\n"
            f"  }} -> {self.type(tensor)}, {self.type(last)}"
        )
        # An op of two results: the first is constant along the dimension.
        self.lines[-1] = self.lines[-1].replace(f"{name} = ", f"{name}:2 = ", 1)
        return Tensor(f"{name}#0", tensor.axes, tensor.dtype)

    def finish(self, *results: Tensor) -> str:
        """The text of the function with these results."""
        types = ", ".join(self.type(r) for r in results)
        names = ", ".join(r.name for r in results)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @{self.name}({', '.join(self.arguments)}) -> ({types}) {{\n"
            f"{body}\n  return {names} : {types}\n}}\n"
        )

    def _generic(
        self,
        body: str,
        result: str,
        operands: Sequence[Scalar],
        dtype: str,
        axes: Iterable[int] | None,
    ) -> Tensor:
        tensors = list(dict.fromkeys(o for o in operands if isinstance(o, Tensor)))
        loops = tuple(axes) if axes is not None else ()
        if axes is None:
            loops = tuple(sorted({a for t in tensors for a in t.axes}))
        names = [
            f"%a{tensors.index(o)}"
            if isinstance(o, Tensor)
            else self._constant(o, tensors[0].dtype)
            for o in operands
        ]
        shape = Tensor("", loops, dtype)
        text = body.replace("{0}", ", ".join(names))
        kinds = ["parallel"] * len(loops)
        return self._write(text, result, tensors, shape, self._empty(shape), loops, kinds)

    def _write(
        self,
        body: str,
        result: str,
        inputs: Sequence[Tensor],
        shape: Tensor,
        init: str,
        loops: Sequence[int],
        kinds: Sequence[str],
    ) -> Tensor:
        loop_names = {axis: f"d{number}" for number, axis in enumerate(loops)}
        space = ", ".join(loop_names[a] for a in loops)
        maps = ", ".join(
            f"affine_map<({space}) -> ({', '.join(loop_names[a] for a in t.axes)})>"
            for t in (*inputs, shape)
        )
        names = ", ".join(t.name for t in inputs)
        types = ", ".join(self.type(t) for t in inputs)
        scalars = ", ".join(f"%a{i}: {t.dtype}" for i, t in enumerate(inputs))
        iterators = ", ".join(f'"{kind}"' for kind in kinds)
        name = self._emit(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}"
            f" ins({names} : {types}) outs({init} : {self.type(shape)}) {{\n"
            f"  ^bb0({scalars}, %out: {shape.dtype}):\n    {body}"
            f"linalg.yield {result} : {shape.dtype}\n  }} -> {self.type(shape)}"
        )
        return Tensor(name, shape.axes, shape.dtype)

    def _filled(self, shape: Tensor) -> str:
        zero = self._constant(0.0, shape.dtype)
        return self._emit(
            f"linalg.fill ins({zero} : {shape.dtype}) outs({self._empty(shape)}"
            f" : {self.type(shape)}) -> {self.type(shape)}"
        )

    def _constant(self, number: float, dtype: str) -> str:
        text = _INFINITIES[dtype][number > 0] if math.isinf(number) else f"{float(number):.9e}"
        return self._emit(f"arith.constant {text} : {dtype}")

    def _empty(self, shape: Tensor) -> str:
        sizes = ", ".join(self.dims[a] for a in shape.axes if self.sizes[a] is None)
        return self._emit(f"tensor.empty({sizes}) : {self.type(shape)}")

    def _emit(self, text: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        return name


_INFINITIES = {
    "f16": ("0xFC00", "0x7C00"),
    "bf16": ("0xFF80", "0x7F80"),
    "f32": ("0xFF800000", "0x7F800000"),
}
