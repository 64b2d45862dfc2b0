"""Angles and their circular functions, to the last bits where IREE's are not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

_HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)
"""Parts of pi / 2; products of the first two with small integers are exact in float32."""


def table() -> Table:
    """The decompositions."""
    import torch

    return {torch.ops.aten.tan.default: _tan}


def _from_nearest_axis(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quarter turns to the nearest axis; cosine and sine of the rest.

    IREE 3.13 adds a turn to negative angles, so that the sine of -1e-8 is 6e-8.
    """
    import torch

    turns = torch.round(x * (2 / math.pi))
    rest = x
    for part in _HALF_PI:
        rest = rest - turns * part
    rest = rest.clamp(-1, 1)  # of large angles the parts of pi / 2 leave more
    size = rest.abs()
    return turns, torch.cos(size), torch.copysign(torch.sin(size), rest)


def circular(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of single precision, for angles up to some thousand turns."""
    import torch

    turns, cosine, sine = _from_nearest_axis(x)
    quarter = turns - 4 * torch.floor(turns / 4)
    odd = (quarter == 1) | (quarter == 3)
    c, s = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    negative = (quarter == 1) | (quarter == 2)
    return torch.where(negative, -c, c), torch.where(quarter >= 2, -s, s)


def _tan(x: torch.Tensor) -> torch.Tensor:
    """From the angle to the nearest pole or zero: IREE's has an error of 3e-4 near the poles."""
    import torch

    if x.dtype.is_complex or x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float32 if is_half(x.dtype) else torch.result_type(x, 1.0))
    turns, cosine, sine = _from_nearest_axis(wide)
    odd = turns - 2 * torch.floor(turns / 2) == 1
    found = torch.where(odd, -cosine / sine, sine / cosine)
    return found.to(x.dtype if x.dtype.is_floating_point else wide.dtype)


def phase(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The angle of x + iy, with C99's values for zeros of both signs and infinities."""
    import torch

    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(small == large, 1.0, small / large)
    ratio = torch.where(large == 0, 0.0, ratio)
    angle = torch.atan(ratio)
    angle = torch.where(y.abs() > x.abs(), math.pi / 2 - angle, angle)
    angle = torch.where(torch.signbit(x), math.pi - angle, angle)
    return torch.copysign(angle, y)
