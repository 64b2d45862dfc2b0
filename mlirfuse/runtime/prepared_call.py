"""Calls on the CPU whose arguments have the types and shapes of a call before.

A call checks its arguments, passes their memory to iree-runtime and makes arrays of the results.
What depends on types and shapes alone is decided once for each signature; a prepared call only
compares its arguments with it. Others, which have to be checked, converted or put in order, are
left to `Session.call`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from mlirfuse.runtime.arrays import ALIGNMENT, Kind, dtype_name, kind_of
from mlirfuse.runtime.exchange import (
    HOST,
    c_order_strides,
    hal_element_type,
    is_float8,
    jax_array,
    torch_integer,
)
from mlirfuse.runtime.host_memory import (
    Shared,
    address_of,
    bytes_in_order,
    imported,
    is_shared,
    mapped,
    uploaded,
)
from mlirfuse.support.signature import TensorSpec

MAX_SIGNATURES = 64
"""Signatures prepared for a program. One that is called with more, as with a growing sequence,
seldom has two calls of the same one in turn."""


class _Argument(Protocol):
    def send(self, value: Any, shared: Shared, owners: list[Any]) -> Any:
        """The buffer view of a value of the same signature; None for any other value.

        Args:
          value: anything.
          shared: the memory of the value is added, where the program reads it in place.
          owners: what has to live until the call ends is added.
        """


class _Result(Protocol):
    def receive(self, view: Any, shared: Shared) -> Any:
        """The array of a buffer view; a copy where it overlaps shared memory."""


class Program(Protocol):
    """A program that is loaded on a device of the host; see `Session`."""

    device: Any

    def invoke(self, arguments: Any) -> Any:
        """Calls it with a list of iree-runtime; returns the list of its results."""

    def failure(self, error: Exception) -> Exception:
        """The error to raise in place of one of `invoke`."""


class PreparedCall:
    """A call of one signature, safe to use from several threads."""

    __slots__ = ("_arguments", "_list", "_program", "_results", "_view")

    def __init__(
        self, arguments: Sequence[_Argument], results: Sequence[_Result], program: Program
    ) -> None:
        """A call of a program.

        Args:
          arguments: one for each argument.
          results: one for each result.
          program: the program.
        """
        import iree.runtime as rt

        self._arguments, self._results, self._program = arguments, results, program
        self._list, self._view = rt.VmVariantList, rt.HalBufferView

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        """The results; None, and nothing is called, where the arguments have another signature.

        Args:
          values: one for each argument.

        Raises:
          MlirfuseError: the program failed.
        """
        prepared, view_type = self._arguments, self._view
        shared: Shared = []
        owners: list[Any] = []
        arguments = self._list(len(prepared))
        for argument, value in zip(prepared, values, strict=True):
            view = argument.send(value, shared, owners)
            if view is None:
                return None
            arguments.push_ref(view)
        try:
            found = self._program.invoke(arguments)
            return [
                result.receive(found.get_as_object(index, view_type), shared)
                for index, result in enumerate(self._results)
            ]
        except (ValueError, RuntimeError) as error:
            raise self._program.failure(error) from error


class PreparedCalls:
    """The prepared calls of a program.

    Attributes:
      latest: the one of the latest call; None where that could not be prepared.
    """

    def __init__(self) -> None:
        """Nothing is prepared."""
        self.latest: PreparedCall | None = None
        self._by_signature: dict[tuple[Any, ...], PreparedCall | None] = {}

    def prepare(self, session: Any, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Prepares calls like one that was made.

        Args:
          session: the `Session` of the program.
          values: its checked arguments.
          results: its results.
        """
        known = self._by_signature
        signature = tuple((type(value), value.dtype, tuple(value.shape)) for value in values)
        if signature not in known:
            if len(known) == MAX_SIGNATURES:
                return
            known[signature] = session.prepared(values, results)
        self.latest = known[signature]


class _TorchArgument:
    """A tensor on the host, in C order."""

    __slots__ = (
        "_decode",
        "_dtype",
        "_encode",
        "_is_grad_enabled",
        "_shape",
        "_size",
        "_strides",
        "_types",
    )

    def __init__(self, tensor: Any, device: Any) -> None:
        torch = sys.modules["torch"]
        self._dtype, self._shape, self._size = tensor.dtype, tensor.shape, tensor.nbytes
        self._strides = c_order_strides(tensor.shape)
        self._encode, self._decode = torch.utils.dlpack.to_dlpack, device.from_dlpack_capsule
        self._types = _torch_types()
        self._is_grad_enabled = torch.is_grad_enabled

    def send(self, value: Any, shared: Shared, owners: list[Any]) -> Any:
        if (
            type(value) not in self._types
            or value.dtype is not self._dtype
            or value.shape != self._shape
            or not value.is_cpu
            or value.stride() != self._strides
            or (value.requires_grad and self._is_grad_enabled())
        ):
            return None
        address = value.data_ptr()
        if address % ALIGNMENT:
            value = value.clone()
            owners.append(value)
            address = value.data_ptr()
        shared.append((address, self._size))
        return self._decode(self._encode(value))


class _TorchResult:
    __slots__ = ("_decode", "_device", "_dtype")

    def __init__(self, tensor: Any, spec: TensorSpec, device: Any) -> None:
        self._device, self._dtype = device, torch_integer(spec)
        torch = sys.modules["torch"]
        # PyTorch's function in Python asks what it is given; this one takes a capsule.
        self._decode = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)

    def receive(self, view: Any, shared: Shared) -> Any:
        tensor = self._decode(self._device.create_dlpack_capsule(view, HOST, 0))
        if self._dtype is not None:
            tensor = tensor.view(self._dtype)
        return tensor.clone() if is_shared(tensor.data_ptr(), tensor.nbytes, shared) else tensor


class _NumpyArgument:
    """An array in the byte order of the host; one that is not in C order is copied."""

    __slots__ = ("_device", "_dtype", "_element_type", "_shape", "_view")

    def __init__(self, array: Any, device: Any) -> None:
        import iree.runtime as rt

        self._dtype, self._shape = array.dtype.newbyteorder("="), array.shape
        self._device, self._view = device, rt.HalBufferView
        self._element_type = hal_element_type(self._dtype)

    def send(self, value: Any, shared: Shared, owners: list[Any]) -> Any:
        if (
            type(value) is not np.ndarray
            or value.dtype != self._dtype
            or value.shape != self._shape
        ):
            return None
        raw = bytes_in_order(value)
        buffer = imported(raw, self._device, shared, owners)
        if buffer is None:
            buffer = uploaded(raw, self._device)
        return self._view(buffer, self._shape, self._element_type)


class _NumpyResult:
    __slots__ = ("_dtype",)

    def __init__(self, array: Any, spec: TensorSpec, device: Any) -> None:
        self._dtype = array.dtype

    def receive(self, view: Any, shared: Shared) -> Any:
        shape = view.shape
        if 0 in shape:
            return np.empty(shape, self._dtype)
        raw = mapped(view.get_buffer())
        array: Any = np.ndarray(shape, self._dtype, raw)
        return array.copy() if is_shared(address_of(raw), array.nbytes, shared) else array


class _JaxArgument:
    """An array of one device of the CPU, whose memory iree-runtime can use."""

    __slots__ = ("_decode", "_devices", "_dtype", "_shape", "_type")

    def __init__(self, array: Any, device: Any) -> None:
        self._type, self._dtype, self._shape = type(array), array.dtype, array.shape
        self._devices, self._decode = array.devices(), device.from_dlpack_capsule

    def send(self, value: Any, shared: Shared, owners: list[Any]) -> Any:
        if (
            type(value) is not self._type
            or value.dtype != self._dtype
            or value.shape != self._shape
            or value.devices() != self._devices
        ):
            return None
        value.block_until_ready()
        if value.unsafe_buffer_pointer() % ALIGNMENT:
            return None
        return self._decode(value.__dlpack__())


class _JaxResult:
    __slots__ = ("_device", "_home")

    def __init__(self, array: Any, spec: TensorSpec, device: Any) -> None:
        (self._home,) = array.devices()
        self._device = device

    def receive(self, view: Any, shared: Shared) -> Any:
        return jax_array(self._device, view, HOST, 0, self._home)


_PREPARED: dict[Kind, tuple[Callable[..., _Argument], Callable[..., _Result]]] = {
    "torch": (_TorchArgument, _TorchResult),
    "numpy": (_NumpyArgument, _NumpyResult),
    "jax": (_JaxArgument, _JaxResult),
}


def prepare(
    values: Sequence[Any],
    results: Sequence[Any],
    specs: Sequence[TensorSpec],
    program: Program,
) -> PreparedCall | None:
    """The call of a signature; None where it needs more than is prepared here.

    Args:
      values: checked arguments of a call before.
      results: the results of that call.
      specs: specs of the results.
      program: the program.
    """
    arrays = (*values, *results)
    kinds = {kind_of(array) for array in arrays}
    kind = kinds.pop()
    if kinds or kind is None or not all(_is_plain(array, kind) for array in arrays):
        return None
    argument, result = _PREPARED[kind]
    return PreparedCall(
        tuple(argument(value, program.device) for value in values),
        tuple(
            result(array, spec, program.device) for array, spec in zip(results, specs, strict=True)
        ),
        program,
    )


def _is_plain(array: Any, kind: Kind) -> bool:
    """Whether the memory of an array can be passed as it is."""
    if is_float8(dtype_name(array)) or 0 in array.shape:
        return False
    return kind != "jax" or [device.platform for device in array.devices()] == ["cpu"]


@functools.cache
def _torch_types() -> tuple[type, ...]:
    torch = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter
