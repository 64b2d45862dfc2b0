"""Complex tensors as pairs of real ones, for decompositions of ops that IREE has no lowering for.

A complex argument of an op is split; the results of real ops are joined again. IREE folds the
joined and split tensors between two such ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

Pair = tuple[Any, Any]

_ELEMENTS = frozenset({"fill", "other", "self", "source", "src", "tensors", "value", "values"})
"""Names of the parameters of aten ops that are elements of the result."""


def is_complex(value: Any) -> bool:
    """Whether a tensor, scalar or type is complex, or a list holds one that is."""
    import torch

    if isinstance(value, torch.Tensor):
        return bool(value.dtype.is_complex)
    if isinstance(value, torch.dtype):
        return bool(value.is_complex)
    if isinstance(value, list | tuple):
        return any(map(is_complex, value))
    return isinstance(value, complex)


def around(default: Table, forms: Table) -> Table:
    """The decompositions `forms` for complex arguments, those of `default` for real ones."""
    return {op: _guarded(form, default.get(op)) for op, form in forms.items()}


def _guarded(form: Callable[..., Any], otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        if is_complex((*args, *kwargs.values())):
            return form(*args, **kwargs)
        return otherwise(*args, **kwargs) if otherwise else NotImplemented

    return decomposition


def parts(value: Any) -> Pair:
    """Real and imaginary part of a tensor or scalar, which may be real."""
    import torch

    if isinstance(value, torch.Tensor):
        if value.dtype.is_complex:
            return torch.real(value), torch.imag(value)
        return value, torch.zeros_like(value)
    return (value.real, value.imag) if isinstance(value, complex) else (float(value), 0.0)


def made(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    """The complex tensor of two parts, which may have other types and sizes."""
    import torch

    dtype = torch.promote_types(real.dtype, imaginary.dtype)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return torch.complex(*torch.broadcast_tensors(real.to(dtype), imaginary.to(dtype)))


def part_type(dtype: torch.dtype) -> torch.dtype:
    """The type of the parts of a complex type."""
    import torch

    real = {
        torch.complex32: torch.float16,
        torch.complex64: torch.float32,
        torch.complex128: torch.float64,
    }
    return real[dtype]


def each_part(op: Any) -> Callable[..., torch.Tensor]:
    """An op that moves elements, or is linear in them, on each part."""
    import torch

    names = [argument.name for argument in op._schema.arguments]

    def part_of(name: str, value: Any, index: int) -> Any:
        if name not in _ELEMENTS or value is None:
            return value
        if isinstance(value, list | tuple):
            return [parts(element)[index] for element in value]
        part = parts(value)[index]
        # PyTorch's decompositions copy into the strides of their argument.
        return part.contiguous() if isinstance(part, torch.Tensor) else part

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        dtype = kwargs.pop("dtype", None)
        if dtype is not None:
            if not dtype.is_complex:
                return NotImplemented
            args = (args[0].to(dtype), *args[1:])
        real, imaginary = (
            op(
                *(part_of(name, value, index) for name, value in zip(names, args, strict=False)),
                **{name: part_of(name, value, index) for name, value in kwargs.items()},
            )
            for index in range(2)
        )
        return made(real, imaginary)

    return decomposition
