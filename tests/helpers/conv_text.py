"""Convolutions with a batch norm and a residual: as text, in float64, and their plans."""

import dataclasses
import re

import numpy as np
from iree.compiler import ir

from helpers.kernel_runner import draw, planned
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.tuning import kernel_search


@dataclasses.dataclass(frozen=True)
class Conv:
    """Sizes of a convolution; `image` and `filter` are the orders of their axes in memory."""

    batch: int | None
    height: int
    width: int
    in_channels: int
    out_channels: int
    taps: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0
    image: str = "bhwc"
    filter: str = "ijcf"

    @property
    def size(self):
        return {
            "b": self.batch,
            "h": self.height + self.low + self.high,
            "w": self.width + self.low + self.high,
            "c": self.in_channels,
            "f": self.out_channels,
            "i": self.taps[0],
            "j": self.taps[1],
        }

    def out_size(self):
        size = self.size
        return [
            (size[a] - (size[k] - 1) * self.dilation - 1) // self.stride + 1
            for a, k in (("h", "i"), ("w", "j"))
        ]

    def shape(self, axes, batch="?"):
        size = {**self.size, "h": self.height, "w": self.width}
        return [batch if size[a] is None else size[a] for a in axes]

    def result(self, batch="?"):
        h, w = self.out_size()
        size = {"b": self.batch or batch, "h": h, "w": w, "f": self.out_channels}
        return [size[a] for a in self.image.replace("c", "f")]


def tensor(shape, kind):
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def conv_text(c, kind="f16", value="0.0"):
    """relu(batch_norm(conv(x, w)) + residual) of padded images, and their sum."""
    tap_loops = [k for k in "ij" if k in c.filter]
    loops = ", ".join([*"bhwf", *tap_loops, "c"])
    moved = {
        a: f"{a} * {c.stride}" + (f" + {k} * {c.dilation}" if tap_loops else "")
        for a, k in (("h", "i"), ("w", "j"))
    }
    at = ", ".join(moved.get(a, a) for a in c.image)
    out_axes = c.image.replace("c", "f")
    out, space = c.result(), "b, f, h, w" if out_axes == "bfhw" else "b, h, w, f"
    image, weight, vector = (
        tensor(c.shape(c.image), kind),
        tensor(c.shape(c.filter), kind),
        tensor([c.out_channels], kind),
    )
    padded = tensor([c.size[a] or "?" for a in c.image], kind)
    low, high = (", ".join(str(n if a in "hw" else 0) for a in c.image) for n in (c.low, c.high))
    narrow, wide, row = tensor(out, kind), tensor(out, "f32"), tensor([c.out_channels], "f32")
    kinds = ", ".join(['"parallel"'] * 4 + ['"reduction"'] * (len(tap_loops) + 1))
    empty = "(%n)" if c.batch is None else "()"
    pad = (
        f"""%p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %edge : {kind}
  }} : {image} to {padded}"""
        if c.low + c.high
        else ""
    )
    text = f"""
#x = affine_map<({loops}) -> ({at})>
#w = affine_map<({loops}) -> ({", ".join(c.filter)})>
#y = affine_map<({loops}) -> ({", ".join(out_axes)})>
#id = affine_map<({space}) -> ({space})>
#f = affine_map<({space}) -> (f)>
#v = affine_map<(f) -> (f)>
func.func @main(%x: {image}, %w: {weight}, %mean: {vector}, %var: {vector}, %r: {narrow})
    -> ({narrow}) {{
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant {value} : {kind}
  %none = arith.constant 0.0 : {kind}
  %eps = arith.constant 0.001 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {image}
  {pad}
  %e = tensor.empty{empty} : {wide}
  %h = tensor.empty{empty} : {narrow}
  %s = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %c = linalg.generic {{indexing_maps = [#x, #w, #y], iterator_types = [{kinds}]}}
      ins(%{"p" if pad else "x"}, %w : {padded}, {weight}) outs(%s : {wide}) {{
  ^bb0(%i: {kind}, %j: {kind}, %o: f32):
    %a = arith.extf %i : {kind} to f32
    %b = arith.extf %j : {kind} to f32
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  }} -> {wide}
  %ev = tensor.empty() : {row}
  %scale = linalg.generic {{indexing_maps = [#v, #v], iterator_types = ["parallel"]}}
      ins(%var : {vector}) outs(%ev : {row}) {{
  ^bb0(%i: {kind}, %o: f32):
    %a = arith.extf %i : {kind} to f32
    %b = arith.addf %a, %eps : f32
    %t = math.rsqrt %b : f32
    linalg.yield %t : f32
  }} -> {row}
  %d = linalg.generic {{indexing_maps = [#id, #f, #f, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%c, %mean, %scale : {wide}, {vector}, {row}) outs(%e : {wide}) {{
  ^bb0(%i: f32, %j: {kind}, %k: f32, %o: f32):
    %a = arith.extf %j : {kind} to f32
    %b = arith.subf %i, %a : f32
    %t = arith.mulf %b, %k : f32
    linalg.yield %t : f32
  }} -> {wide}
  %y = linalg.generic {{indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%d, %r : {wide}, {narrow}) outs(%h : {narrow}) {{
  ^bb0(%i: f32, %j: {kind}, %o: {kind}):
    %a = arith.truncf %i : f32 to {kind}
    %b = arith.addf %a, %j : {kind}
    %q = arith.cmpf ugt, %b, %none : {kind}
    %t = arith.select %q, %b, %none : {kind}
    linalg.yield %t : {kind}
  }} -> {narrow}
  return %y : {narrow}
}}
"""
    return text if kind != "f32" else without_casts(text)


def without_casts(text):
    """The text without casts from f32 to f32, in bodies of one op."""
    lines, known = [], {}
    for line in text.splitlines():
        if line.lstrip().startswith("^bb0"):
            known = {}
        cast = re.fullmatch(r"\s*(%\w+) = arith\.(?:extf|truncf) (%\w+) : f32 to f32", line)
        if cast is not None:
            known[cast[1]] = known.get(cast[2], cast[2])
        else:
            lines.append(re.sub(r"%\w+", lambda name, k=known: k.get(name[0], name[0]), line))
    return "\n".join(lines)


def reference(c, x, w, mean, var, residual):
    x, w, mean, var = (a.astype(np.float64) for a in (x, w, mean, var))
    x = x.transpose([c.image.index(a) for a in "bhwc"])
    w = w.transpose([c.filter.index(a) for a in "ijcf" if a in c.filter])
    w = w.reshape(*c.taps, c.in_channels, c.out_channels)
    x = np.pad(x, ((0, 0), (c.low, c.high), (c.low, c.high), (0, 0)))
    h, width = c.out_size()
    accumulators = np.zeros((x.shape[0], h, width, c.out_channels))
    with np.errstate(invalid="ignore"):
        for i in range(c.taps[0]):
            for j in range(c.taps[1]):
                part = x[
                    :,
                    i * c.dilation : i * c.dilation + (h - 1) * c.stride + 1 : c.stride,
                    j * c.dilation : j * c.dilation + (width - 1) * c.stride + 1 : c.stride,
                ]
                accumulators += part @ w[i, j]
        y = (accumulators - mean) / np.sqrt(var + 0.001)
        y = y.transpose(["bhwf".index(a) for a in c.image.replace("c", "f")])
        y = y + residual.astype(np.float64)
        return np.where(y <= 0, 0.0, y)


def arrays_of(c, batch=2, kind="f16"):
    return [
        draw(c.shape(c.image, batch), kind, 1),
        draw(c.shape(c.filter), kind, 2, 1 / np.sqrt(c.in_channels * c.taps[0] * c.taps[1])),
        draw((c.out_channels,), kind, 3),
        np.abs(draw((c.out_channels,), kind, 4)),
        draw(c.result(batch), kind, 5),
    ]


def plan_of(text, config, target):
    """The plan of a convolution's kernel with a configuration, or the refusal."""
    with ir.Context():
        module, _ = planned(text, "convolution")
        (found,) = (
            found
            for region in kernel_search.regions(module)
            if (found := CONVOLUTION.plan(region, target, config)) is not None
        )
        return found


class Array(np.ndarray):
    """The effect of a kernel's text on a tensor."""

    def to(self, dtype):
        return self.astype(dtype)
