"""Resizes of images: the nearest element, and linear and cubic interpolation.

An element of the result is a weighted sum of gathered elements, for each axis:

    y[o] = sum of w[o, k] * x[clamp(low[o] + k)]
    low[o] = floor(((2 * o + 1) * p - q) / (2 * q))

Positions are quotients of integers, p / q the step, so that indices are exact and passes can read
them as functions of the loops; PyTorch rounds them as floats.
"""

from __future__ import annotations

import dataclasses
import fractions
import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

_MAX_DENOMINATOR = 1 << 24
"""Largest denominator of a step: that of f32's significands."""

_MAX_NEAREST_DENOMINATOR = 1 << 12
"""The same for nearest elements, whose positions are rounded."""


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        **{op: _nearest(rank, exact, vec) for op, rank, exact, vec in _nearest_ops()},
        aten.upsample_linear1d.default: _linear,
        aten.upsample_linear1d.vec: _of_factors(_linear, 1),
        aten.upsample_bilinear2d.default: _linear,
        aten.upsample_bilinear2d.vec: _of_factors(_linear, 2),
        aten.upsample_trilinear3d.default: _linear,
        aten.upsample_trilinear3d.vec: _of_factors(_linear, 3),
        aten.upsample_bicubic2d.default: _cubic,
        aten.upsample_bicubic2d.vec: _of_factors(_cubic, 2),
    }


def _nearest_ops() -> list[tuple[Any, int, bool, bool]]:
    import torch

    found = []
    for rank in (1, 2, 3):
        for name, exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
            packet = getattr(torch.ops.aten, f"{name}{rank}d")
            found += [(packet.default, rank, exact, False), (packet.vec, rank, exact, True)]
    return found


def _nearest(rank: int, exact: bool, vec: bool) -> Callable[..., torch.Tensor]:
    """The nearest elements, at indices of integers: IREE rounds a product with the scale down."""

    def decomposition(x: torch.Tensor, output_size: Sequence[int] | None, *scales: Any) -> Any:
        import torch

        sizes = x.shape[-rank:]
        given = scales[0] if vec else scales
        factors = list(given or ()) or [None] * rank
        counts = output_size or scaled(sizes, factors)
        places = []
        for size, count, factor in zip(sizes, counts, factors, strict=True):
            top, bottom = _step(size, count, factor, _MAX_NEAREST_DENOMINATOR)
            place = torch.arange(count, device=x.device)
            shift = 0
            if exact:
                top, bottom, shift = 2 * top, 2 * bottom, top
            place = torch.div(place * top + shift, bottom, rounding_mode="floor")
            is_static = isinstance(size, int) and isinstance(count, int)
            if not is_static or (count - 1) * top + shift >= bottom * size:
                place = place.clamp(max=size - 1)
            places.append(place)
        return at_places(x, places)

    return decomposition


def scaled(sizes: Sequence[int], factors: Sequence[float | None]) -> list[int]:
    """The sizes times factors, rounded down; dynamic ones without floats, which IREE lacks."""
    found = []
    for size, factor in zip(sizes, factors, strict=True):
        exact = fractions.Fraction(factor or 1)
        is_static = isinstance(size, int)
        found.append(
            int(size * (factor or 1)) if is_static else size * exact.numerator // exact.denominator
        )
    return found


def _step(size: int, count: int, factor: float | None, limit: int) -> tuple[int, int]:
    """The distance of two positions as a quotient of integers, reduced where they are static.

    Args:
      size: of the image.
      count: number of positions.
      factor: a given one; None for that of the sizes.
      limit: largest denominator of the inverse of a given factor.
    """
    if factor:
        step = (1 / fractions.Fraction(factor)).limit_denominator(limit)
    elif isinstance(size, int) and isinstance(count, int):
        step = fractions.Fraction(size, count)
    else:
        return size, count
    return step.numerator, step.denominator


def at_places(x: torch.Tensor, places: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of the last axes at places along each of them: one gather for all axes."""
    import torch

    rank = len(places)
    index = [place.view(-1, *[1] * (rank - 1 - axis)) for axis, place in enumerate(places)]
    return torch.ops.aten.index.Tensor(x, [*[None] * (x.dim() - rank), *index])


Resize = Callable[..., Any]
"""Takes an image, sizes of the result, whether corners are aligned, a scale or None for each
axis."""


def _of_factors(resize: Resize, rank: int) -> Resize:
    """The resize whose sizes may be given by factors alone."""

    def decomposition(
        x: torch.Tensor,
        output_size: Sequence[int] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Any:
        factors: list[float | None] = [*scale_factors] if scale_factors else [None] * rank
        sizes = output_size or scaled(x.shape[-rank:], factors)
        return resize(x, sizes, align_corners, *factors)

    return decomposition


@dataclasses.dataclass(frozen=True, slots=True)
class _Positions:
    """The positions of the elements of the result along an axis of the image.

    Attributes:
      low: the element at or before each position, before the first one too.
      rest: the distance to it, from 0 to below 1.
      last: index of the last element.
    """

    low: torch.Tensor
    rest: torch.Tensor
    last: int

    def tap(self, distance: int) -> torch.Tensor:
        """Indices of the elements at a distance from `low`, repeated at both ends."""
        return (self.low + distance).clamp(0, self.last)


def _positions(
    x: torch.Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales: Sequence[float | None],
    *,
    inside: bool,
) -> list[_Positions] | None:
    """The positions along the last axes; None for images of integers.

    Args:
      x: the image.
      output_size: sizes of the last axes of the result.
      align_corners: whether the first and the last elements keep their positions.
      scales: given factors, for steps that are not those of the sizes.
      inside: whether positions before the first element are moved to it.
    """
    import torch

    rank = len(output_size)
    sizes = x.shape[-rank:]
    if not x.is_floating_point():
        return None
    wide, found = _wide(x), []
    for size, count, scale in zip(sizes, output_size, scales or [None] * rank, strict=True):
        place = torch.arange(count, device=x.device)
        if align_corners:
            steps = max(count - 1, 1) if isinstance(count, int) else torch.sym_max(count - 1, 1)
            top, divisor = _step(size - 1, steps, None, _MAX_DENOMINATOR)
            place = place * top
        else:
            top, bottom = _step(size, count, scale, _MAX_DENOMINATOR)
            place, divisor = (2 * place + 1) * top - bottom, 2 * bottom
        if inside:
            place = place.clamp(min=0)
        low = torch.div(place, divisor, rounding_mode="floor")
        found.append(_Positions(low, (place - low * divisor).to(wide) / divisor, size - 1))
    return found


def _wide(x: torch.Tensor) -> torch.dtype:
    """The type that an image is interpolated in."""
    import torch

    return torch.float32 if is_half(x.dtype) else x.dtype


def _linear(
    x: torch.Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Any:
    """Linear interpolation; gathers elements in their own type, where PyTorch casts the image."""
    axes = _positions(x, output_size, align_corners, scales, inside=True)
    if axes is None:
        return NotImplemented

    def sampled(places: list[torch.Tensor], rest: Sequence[_Positions]) -> torch.Tensor:
        if not rest:
            return at_places(x, places).to(_wide(x))
        first, second = (sampled([*places, rest[0].tap(n)], rest[1:]) for n in (0, 1))
        return first + (second - first) * _along(rest[0].rest, len(rest))

    return sampled([], axes).to(x.dtype)


def _cubic(
    x: torch.Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Any:
    """Cubic convolution of four elements along each axis."""
    axes = _positions(x, output_size, align_corners, scales, inside=False)
    if axes is None:
        return NotImplemented

    def sampled(places: list[torch.Tensor], rest: Sequence[_Positions]) -> torch.Tensor:
        if not rest:
            return at_places(x, places).to(_wide(x))
        parts = [
            sampled([*places, rest[0].tap(n - 1)], rest[1:]) * _along(weight, len(rest))
            for n, weight in enumerate(cubic_weights(rest[0].rest))
        ]
        return functools.reduce(operator.add, parts)

    return sampled([], axes).to(x.dtype)


def _along(weights: torch.Tensor, axes: int) -> torch.Tensor:
    """Weights along the first of the last axes."""
    return weights.view(-1, *[1] * (axes - 1))


def cubic_weights(t: torch.Tensor) -> list[torch.Tensor]:
    """Weights of four neighbours, with a = -0.75."""
    a = -0.75

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
