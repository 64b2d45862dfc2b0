"""Writes matmuls with weights of i8 or i4 that are dequantized in the loop over K."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Weights:
    """A matmul of f16 with quantized weights.

    Attributes:
      m: rows of A; None for a dynamic M.
      n: columns of the weights.
      k: contracted elements.
      dtype: element type of the weights.
      group_size: elements of K that share a scale; 0 for one scale per column.
      zero: element type of zero points, one per scale; empty for none.
      k_contiguous: whether weights are K-contiguous, as PyTorch has them.
    """

    m: int | None
    n: int
    k: int
    dtype: str = "i4"
    group_size: int = 0
    zero: str = ""
    k_contiguous: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the weights."""
        k = (self.k // self.group_size, self.group_size) if self.group_size else (self.k,)
        return (self.n, *k) if self.k_contiguous else (*k, self.n)

    @property
    def scales(self) -> tuple[int, ...]:
        """The sizes of the scales."""
        groups = (self.k // self.group_size,) if self.group_size else ()
        return (self.n, *groups) if self.k_contiguous else (*groups, self.n)

    def text(self) -> str:
        """The function `@main` of the left operand, weights, scales and zero points."""
        loops = (
            (["n", "g", "s"] if self.k_contiguous else ["g", "s", "n"])
            if self.group_size
            else ["n", "k"]
        )
        loops = loops if self.k_contiguous or self.group_size else ["k", "n"]
        scale = [x for x in loops if x not in "sk"]
        whole, part = (
            f"affine_map<({', '.join(loops)}) -> ({', '.join(x)})>" for x in (loops, scale)
        )
        rows = "?" if self.m is None else self.m
        left, right = f"tensor<{rows}x{self.k}xf16>", tensor(self.shape, self.dtype)
        wide, out = tensor(self.shape, "f16"), f"tensor<{rows}x{self.n}xf16>"
        scales, sums = tensor(self.scales, "f16"), f"tensor<{rows}x{self.n}xf32>"
        flat = f"{self.n}x{self.k}" if self.k_contiguous else f"{self.k}x{self.n}"
        arguments = f"%x: {left}, %w: {right}, %s: {scales}"
        zeros = ""
        inputs, types, maps = "%w, %s", f"{right}, {scales}", f"{whole}, {part}"
        body, taken = f"%f = arith.sitofp %a : {self.dtype} to f16\n", "%f"
        given = f"%a: {self.dtype}, %b: f16"
        if self.zero:
            zeros = tensor(self.scales, self.zero)
            arguments += f", %z: {zeros}"
            inputs, types, maps = f"{inputs}, %z", f"{types}, {zeros}", f"{maps}, {part}"
            given += f", %c: {self.zero}"
            body += f"%g = arith.sitofp %c : {self.zero} to f16\n%h = arith.subf %f, %g : f16\n"
            taken = "%h"
        kinds = ", ".join(['"parallel"'] * len(loops))
        groups = "[[0], [1, 2]]" if self.k_contiguous else "[[0, 1], [2]]"
        collapsed = f"%d2 = tensor.collapse_shape %d {groups} : {wide} into tensor<{flat}xf16>\n"
        nk = "(n, k)" if self.k_contiguous else "(k, n)"
        made = "(%rows)" if self.m is None else "()"
        return f"""
func.func @main({arguments}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : {left}
  %e = tensor.empty() : {wide}
  %d = linalg.generic {{indexing_maps = [{maps}, {whole}], iterator_types = [{kinds}]}}
      ins({inputs} : {types}) outs(%e : {wide}) {{
  ^bb0({given}, %o: f16):
    {body}%r = arith.mulf {taken}, %b : f16
    linalg.yield %r : f16
  }} -> {wide}
  {collapsed if self.group_size else ""}
  %e1 = tensor.empty{made} : {sums}
  %f = linalg.fill ins(%zero : f32) outs(%e1 : {sums}) -> {sums}
  %t = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> {nk}>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, {"%d2" if self.group_size else "%d"} : {left}, tensor<{flat}xf16>)
      outs(%f : {sums}) -> {sums}
  %e2 = tensor.empty{made} : {out}
  %y = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>,
      affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}}
      ins(%t : {sums}) outs(%e2 : {out}) {{
  ^bb0(%i: f32, %o: f16):
    %r = arith.truncf %i : f32 to f16
    linalg.yield %r : f16
  }} -> {out}
  return %y : {out}
}}
"""


def tensor(shape: tuple[int, ...], kind: str) -> str:
    """The type of a static tensor."""
    return f"tensor<{'x'.join(map(str, shape))}x{kind}>"
