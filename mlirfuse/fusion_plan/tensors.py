"""Tensors of a fusion plan: shape, element type and the order of their dimensions."""

from __future__ import annotations

import dataclasses
import re

from mlirfuse.core import UsageError, nearest

DTYPES = ("f16", "bf16", "f32")
"""Element types of the tensors that plans compute with; sums and intermediates are f32."""

_ALIASES = {
    "float": "f32",
    "float16": "f16",
    "float32": "f32",
    "half": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "int32": "i32",
    "double": "f64",
    "float64": "f64",
}

LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
"""Orders of the dimensions of images: batch, channels, and spatial dimensions."""

_DEFAULT_LAYOUTS = {4: "NCHW", 5: "NCDHW"}

_SPELLED = re.compile(r"(?P<shape>(?:\d+x)*)(?P<dtype>[a-z]+\d*)")


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that a plan reads or writes.

    Attributes:
      shape: sizes in the order of the array's dimensions.
      dtype: element type by MLIR's name, `f32`, `f16`, `bf16`; numpy's names are accepted.
      layout: a letter for each dimension of an image, `NCHW` or `NHWC`; where it is left out,
        channels are the second dimension of a tensor of rank 4 or 5, and the last of others.
    """

    shape: tuple[int, ...]
    dtype: str = "f32"
    layout: str = ""

    def __post_init__(self) -> None:
        """Completes the layout.

        Raises:
          UsageError: a size is not positive, or the layout is unknown or of another rank.
        """
        shape = tuple(self.shape)
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise UsageError(f"a plan's tensor has positive static sizes, not {shape}")
        layout = self.layout.upper() or _DEFAULT_LAYOUTS.get(len(shape), "")
        if layout and layout not in LAYOUTS:
            raise UsageError(f"unknown layout '{self.layout}'{nearest(layout, LAYOUTS)}")
        if layout and len(layout) != len(shape):
            raise UsageError(f"layout {layout} has {len(layout)} dimensions, {shape} {len(shape)}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "dtype", _ALIASES.get(self.dtype, self.dtype))

    @classmethod
    def parse(cls, text: str, layout: str = "") -> TensorSpec:
        """Reads IREE's spelling, `1x32x56x56xf32`.

        Raises:
          UsageError: the text is no shape with an element type.
        """
        found = _SPELLED.fullmatch(text.strip())
        if found is None:
            raise UsageError(f"'{text}' is no tensor; expected sizes and a type: 1x32x56x56xf32")
        sizes = found["shape"].split("x")[:-1]
        return cls(tuple(map(int, sizes)), found["dtype"], layout)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def channel_axis(self) -> int:
        """The dimension of the channels: the layout's C, or the last one."""
        return self.layout.index("C") if self.layout else self.rank - 1

    @property
    def channels(self) -> int:
        """The size of the dimension of the channels."""
        return self.shape[self.channel_axis]

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The dimensions of an image that are neither batch nor channels."""
        return tuple(i for i, letter in enumerate(self.layout) if letter not in "NC")

    @property
    def mlir_type(self) -> str:
        """The type in MLIR."""
        return f"tensor<{self}>"

    def with_spatial(self, channels: int, sizes: tuple[int, ...]) -> TensorSpec:
        """An image of the same batch, layout and type with other channels and sizes."""
        shape = list(self.shape)
        shape[self.channel_axis] = channels
        for axis, size in zip(self.spatial_axes, sizes, strict=True):
            shape[axis] = size
        return dataclasses.replace(self, shape=tuple(shape))

    def __str__(self) -> str:
        """IREE's spelling."""
        return "x".join([*map(str, self.shape), self.dtype])
