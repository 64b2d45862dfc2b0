"""Convolutions with groups, and transposed ones, of any rank: as text, and in float64."""

import dataclasses
import itertools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Form:
    """A convolution and a bias of each output channel, which a ReLU follows.

    `groups`, `inner` and `outer` are groups and the channels of one, None for no such loop;
    `spread` is the stride of a transposed convolution. The result has the channels last if the
    image has, unless it is `turned`. Accumulators that `starts` is true of start from the bias,
    which is added twice then.
    """

    image: tuple[int, ...]
    taps: tuple[int, ...]
    groups: int | None = None
    inner: int | None = None
    outer: int | None = None
    batch: int = 2
    stride: int = 1
    dilation: int = 1
    spread: int = 1
    low: int = 1
    high: int = 1
    last: bool = False
    turned: bool = False
    starts: bool = False

    @property
    def padded(self):
        return [(n - 1) * self.spread + 1 + self.low + self.high for n in self.image]

    @property
    def out(self):
        sizes = zip(self.padded, self.taps, strict=True)
        return [(n - (k - 1) * self.dilation - 1) // self.stride + 1 for n, k in sizes]

    @property
    def sizes(self):
        found = {"b": self.batch, "g": self.groups, "c": self.inner, "n": self.outer}
        found |= {f"o{d}": n for d, n in enumerate(self.out)}
        return found | {f"t{d}": n for d, n in enumerate(self.taps)}

    def axes(self, channels, pixels, last):
        kept = [a for a in channels if self.sizes[a] is not None]
        return ["b", *pixels, *kept] if last else ["b", *kept, *pixels]

    @property
    def image_axes(self):
        return self.axes("gc", [f"s{d}" for d in range(len(self.image))], self.last)

    @property
    def filter_axes(self):
        """Channels are innermost where kernels prefer that, or the filter would be transposed."""
        kept = [a for a in "gnc" if self.sizes[a] is not None]
        taps = [f"t{d}" for d in range(len(self.taps))]
        if self.groups is None:
            return [*kept[:-1], *taps, *kept[-1:]] if self.last else [*kept, *taps]
        inner, outer = self.inner or 1, self.outer or 1
        if inner < 16 < outer:
            return ["g", *taps, "c", "n"]
        return ["g", "n", *taps, "c"] if inner >= 16 else [*kept, *taps]

    @property
    def out_axes(self):
        pixels = [f"o{d}" for d in range(len(self.image))]
        return self.axes("gn", pixels, self.last != self.turned)

    @property
    def bias_axes(self):
        return [a for a in "gn" if self.sizes[a] is not None]

    def shape(self, axes, pixels=()):
        sizes = {**self.sizes, **{f"s{d}": n for d, n in enumerate(pixels)}}
        return [sizes[a] for a in axes]


def tensor(shape, kind):
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def form_text(f, kind):
    loops = [*f.out_axes, *(a for a in f.filter_axes if a not in f.out_axes)]
    rank = len(f.image)
    at = {
        f"s{d}": f"o{d} * {f.stride}" + (f" + t{d} * {f.dilation}" if f.taps[d] else "")
        for d in range(rank)
    }
    names = ", ".join(loops)
    image, whole = f.shape(f.image_axes, f.image), f.shape(f.image_axes, f.padded)
    x, padded = tensor(image, kind), tensor(whole, kind)
    w, bias = tensor(f.shape(f.filter_axes), kind), tensor(f.shape(f.bias_axes), kind)
    wide, out = tensor(f.shape(f.out_axes), "f32"), tensor(f.shape(f.out_axes), kind)
    kinds = ["parallel" if a in f.out_axes else "reduction" for a in loops]
    kinds = ", ".join(f'"{kind}"' for kind in kinds)
    low = [f.low if a in at else 0 for a in f.image_axes]
    high = [f.high if a in at else 0 for a in f.image_axes]
    strides = [f.spread if a in at else 1 for a in f.image_axes]
    if f.spread > 1:
        pad = f"""%pe = tensor.empty() : {padded}
  %pz = linalg.fill ins(%none : {kind}) outs(%pe : {padded}) -> {padded}
  %p = tensor.insert_slice %x into %pz{low} {image} {strides} : {x} into {padded}"""
    else:
        arguments = ", ".join(f"%i{d}: index" for d in range(len(low)))
        pad = f"""%p = tensor.pad %x low{low} high{high} {{
  ^bb0({arguments}):
    tensor.yield %none : {kind}
  }} : {x} to {padded}"""
    casts = kind != "f32"
    widen = f"%a = arith.extf %i : {kind} to f32\n    %b = arith.extf %j : {kind} to f32"
    a, b = ("%a", "%b") if casts else ("%i", "%j")
    wide_bias = f"%b = arith.extf %j : {kind} to f32" if casts else ""
    narrow = f"%q = arith.truncf %t : f32 to {kind}" if casts else ""
    parallel = ", ".join(['"parallel"'] * len(f.out_axes))
    space = ", ".join(f.out_axes)
    start = f"linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}"
    if f.starts:
        assert not casts
        start = f"""linalg.generic {{indexing_maps = [#v, #id], iterator_types = [{parallel}]}}
      ins(%v : {bias}) outs(%e : {wide}) {{
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  }} -> {wide}"""
    return f"""
#x = affine_map<({names}) -> ({", ".join(at.get(axis, axis) for axis in f.image_axes)})>
#w = affine_map<({names}) -> ({", ".join(f.filter_axes)})>
#y = affine_map<({names}) -> ({space})>
#id = affine_map<({space}) -> ({space})>
#v = affine_map<({space}) -> ({", ".join(f.bias_axes)})>
func.func @main(%x: {x}, %w: {w}, %v: {bias}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : {kind}
  {pad}
  %e = tensor.empty() : {wide}
  %s = {start}
  %c = linalg.generic {{indexing_maps = [#x, #w, #y], iterator_types = [{kinds}]}}
      ins(%p, %w : {padded}, {w}) outs(%s : {wide}) {{
  ^bb0(%i: {kind}, %j: {kind}, %o: f32):
    {widen if casts else ""}
    %m = arith.mulf {a}, {b} : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  }} -> {wide}
  %h = tensor.empty() : {out}
  %y = linalg.generic {{indexing_maps = [#id, #v, #id], iterator_types = [{parallel}]}}
      ins(%c, %v : {wide}, {bias}) outs(%h : {out}) {{
  ^bb0(%i: f32, %j: {kind}, %o: {kind}):
    {wide_bias}
    %r = arith.addf %i, {b} : f32
    %t = arith.maximumf %r, %zero : f32
    {narrow}
    linalg.yield {"%q" if casts else "%t"} : {kind}
  }} -> {out}
  return %y : {out}
}}
"""


def form_reference(f, x, w, bias):
    """The same by its definition, tap by tap."""
    rank, groups = len(f.image), f.groups or 1
    pixels = [f"s{d}" for d in range(rank)]
    order = ["b", *(a for a in "gc" if f.sizes[a] is not None), *pixels]
    x = x.astype(np.float64).transpose([f.image_axes.index(a) for a in order])
    x = x.reshape(f.batch, groups, f.inner or 1, *f.image)
    named = [a for a in "gnc" if f.sizes[a] is not None]
    named += [f"t{d}" for d in range(rank)]
    w = w.astype(np.float64).transpose([f.filter_axes.index(a) for a in named])
    w = w.reshape(groups, f.outer or 1, f.inner or 1, *f.taps)
    padded = np.zeros((*x.shape[:3], *f.padded))
    places = [slice(f.low, f.low + (n - 1) * f.spread + 1, f.spread) for n in f.image]
    padded[(..., *places)] = x
    y = np.zeros((f.batch, groups, f.outer or 1, *f.out))
    for tap in itertools.product(*map(range, f.taps)):
        part = padded[
            (
                ...,
                *(
                    slice(t * f.dilation, t * f.dilation + (n - 1) * f.stride + 1, f.stride)
                    for t, n in zip(tap, f.out, strict=True)
                ),
            )
        ]
        y += np.einsum("bgc...,gnc->bgn...", part, w[(..., *tap)])
    bias = bias.astype(np.float64).reshape(1, groups, f.outer or 1, *[1] * rank)
    y = np.maximum(y + bias * (1 + f.starts), 0.0)
    kept = [n for n in (f.groups, f.outer) if n is not None]
    y = y.reshape(f.batch, *kept, *f.out)
    named = ["b", *f.bias_axes, *(f"o{d}" for d in range(rank))]
    return y.transpose([named.index(a) for a in f.out_axes])
