"""Writes products with weights of i8 or i4 that are dequantized on the way."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Weights:
    """A product of rows of f16 with quantized weights.

    Attributes:
      rows: of the left operand; None for a dynamic number.
      columns: of the weights.
      terms: of each sum.
      narrow: element type of the weights.
      run: terms that share a scale; 0 for one scale for each column.
      zero: element type of zero points, one beside each scale; empty for none.
      inside: whether the terms of a column lie side by side, as PyTorch has them.
    """

    rows: int | None
    columns: int
    terms: int
    narrow: str = "i4"
    run: int = 0
    zero: str = ""
    inside: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the weights."""
        terms = (self.terms // self.run, self.run) if self.run else (self.terms,)
        return (self.columns, *terms) if self.inside else (*terms, self.columns)

    @property
    def scales(self) -> tuple[int, ...]:
        """The sizes of the scales."""
        runs = (self.terms // self.run,) if self.run else ()
        return (self.columns, *runs) if self.inside else (*runs, self.columns)

    def text(self) -> str:
        """The function `@main` of the left operand, weights, scales and zero points."""
        loops = (["n", "g", "s"] if self.inside else ["g", "s", "n"]) if self.run else ["n", "k"]
        loops = loops if self.inside or self.run else ["k", "n"]
        scale = [x for x in loops if x not in "sk"]
        whole, part = (
            f"affine_map<({', '.join(loops)}) -> ({', '.join(x)})>" for x in (loops, scale)
        )
        rows = "?" if self.rows is None else self.rows
        left, right = f"tensor<{rows}x{self.terms}xf16>", tensor(self.shape, self.narrow)
        wide, out = tensor(self.shape, "f16"), f"tensor<{rows}x{self.columns}xf16>"
        scales, sums = tensor(self.scales, "f16"), f"tensor<{rows}x{self.columns}xf32>"
        flat = f"{self.columns}x{self.terms}" if self.inside else f"{self.terms}x{self.columns}"
        arguments = f"%x: {left}, %w: {right}, %s: {scales}"
        zeros = ""
        inputs, types, maps = "%w, %s", f"{right}, {scales}", f"{whole}, {part}"
        body, taken = f"%f = arith.sitofp %a : {self.narrow} to f16\n", "%f"
        given = f"%a: {self.narrow}, %b: f16"
        if self.zero:
            zeros = tensor(self.scales, self.zero)
            arguments += f", %z: {zeros}"
            inputs, types, maps = f"{inputs}, %z", f"{types}, {zeros}", f"{maps}, {part}"
            given += f", %c: {self.zero}"
            body += f"%g = arith.sitofp %c : {self.zero} to f16\n%h = arith.subf %f, %g : f16\n"
            taken = "%h"
        kinds = ", ".join(['"parallel"'] * len(loops))
        groups = "[[0], [1, 2]]" if self.inside else "[[0, 1], [2]]"
        joined = f"%d2 = tensor.collapse_shape %d {groups} : {wide} into tensor<{flat}xf16>\n"
        terms = "(n, k)" if self.inside else "(k, n)"
        made = "(%rows)" if self.rows is None else "()"
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
  {joined if self.run else ""}
  %e1 = tensor.empty{made} : {sums}
  %f = linalg.fill ins(%zero : f32) outs(%e1 : {sums}) -> {sums}
  %t = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> {terms}>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, {"%d2" if self.run else "%d"} : {left}, tensor<{flat}xf16>)
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
