"""Arrays of numpy, torch and JAX to buffer views of iree-runtime and back.

Host memory is shared, not copied, where iree-runtime can use it: writable, in C order, and aligned
to 64 bytes. Results are views of the buffers that the program wrote. torch and jax are never
imported here: whoever passes their arrays has imported them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlirfuse.core import CallError
from mlirfuse.support.signature import TensorSpec

ALIGNMENT = 64
"""Bytes to which iree-runtime wants host memory aligned that it uses without a copy; code
generation relies on it."""

_MLIR = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
"""numpy's name of an element type -> MLIR's."""

_NUMPY = {mlir: name for name, mlir in _MLIR.items()} | {"index": "int64"}

_HOST, _CUDA, _ROCM = 1, 2, 10
"""Device types of DLPack."""

_DLPACK = {"local-task": _HOST, "local-sync": _HOST, "cuda": _CUDA, "hip": _ROCM}
"""Driver of iree-runtime -> device type under which its buffers are exchanged."""

_BYTE = np.dtype(np.uint8)

Kind = str
"""Whose array: `numpy`, `torch` or `jax`."""


_kinds: dict[type, Kind | None] = {}
"""What `kind_of` found, by type."""


def kind_of(value: Any) -> Kind | None:
    """Whose array a value is; None for numbers and lists."""
    found = type(value)
    if found not in _kinds:
        _kinds[found] = _kind(value)
    return _kinds[found]


def _kind(value: Any) -> Kind | None:
    if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
        return "torch"
    if (jax := sys.modules.get("jax")) and isinstance(value, jax.Array):
        return "jax"
    return "numpy" if isinstance(value, np.ndarray | np.generic) else None


def common_kind(values: Iterable[Any]) -> Kind:
    """The kind of all arrays among the values; `numpy` when they differ or there is none."""
    kinds = {kind for value in values if (kind := kind_of(value)) is not None}
    return kinds.pop() if len(kinds) == 1 else "numpy"


def dtype_name(value: Any) -> str:
    """The element type of an array in MLIR's spelling."""
    return _dtype_name(value.dtype)


@functools.cache
def _dtype_name(dtype: Any) -> str:
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    return _MLIR.get(name, name)


def numpy_dtype(mlir: str) -> np.dtype[Any]:
    """Numpy's element type for MLIR's; signless integers are signed."""
    name = _NUMPY[re.sub(r"^si(?=\d)", "i", mlir)]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


def converted(value: Any, spec: TensorSpec, where: str) -> Any:
    """The value, or the array that a number or a list stands for.

    Raises:
      CallError: it stands for none.
    """
    if kind_of(value) is not None:
        return value
    try:
        return np.asarray(value, dtype=numpy_dtype(spec.dtype))
    except (TypeError, ValueError, OverflowError):
        raise CallError(f"{where} is of type {type(value).__name__}; expected {spec}") from None


def checked(value: Any, spec: TensorSpec, where: str) -> Any:
    """What `converted` returns, when it fits the spec.

    Args:
      value: an array, a number, or numbers in lists.
      spec: what the program takes there.
      where: names the argument, for the error.

    Raises:
      CallError: shape or element type are not the spec's.
    """
    value = converted(value, spec, where)
    shape = tuple(value.shape)
    fits = len(shape) == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, shape, strict=True)
    )
    if not fits or _signless(dtype_name(value)) != _signless(spec.dtype):
        got = TensorSpec(shape, dtype_name(value))
        raise CallError(f"{where} is {got}; expected {spec}")
    return value


@functools.cache
def _signless(dtype: str) -> str:
    return re.sub(r"^[su](?=i\d)", "", dtype)


@dataclasses.dataclass(slots=True)
class Exchange:
    """Passes arrays to one call on one device, and its results back.

    Attributes:
      uri: the device's URI.
      device: its `HalDevice`.
      kind: whose arrays the results will be.
      copies: a result that lies in an argument or in another result becomes memory of its own.
      shared: first byte and size of the memory of arguments and results that the caller has.
      kept: what owns that memory. iree-runtime 3.13 forgets the owner of imported memory together
        with the Python object of the buffer, though views of it live on.
      home: the torch or JAX device of the arguments.
      dlpack: DLPack's type of the device; None where buffers cannot be exchanged.
    """

    uri: str
    device: Any
    kind: Kind
    copies: bool = True
    shared: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    kept: list[Any] = dataclasses.field(default_factory=list)
    home: Any = None
    dlpack: int | None = dataclasses.field(init=False)
    _waited: bool = False

    def __post_init__(self) -> None:
        """Looks up what the device exchanges."""
        self.dlpack = _dlpack_type(self.uri)

    # --- arguments -------------------------------------------------------------------------------

    def send(self, value: Any) -> Any:
        """The buffer view of an argument."""
        kind = kind_of(value)
        if kind == "torch":
            return self._send_torch(value)
        if kind == "jax":
            return self._send_jax(value)
        return self._send_numpy(np.asarray(value))

    def _send_torch(self, tensor: Any) -> Any:
        torch = sys.modules["torch"]
        if tensor.requires_grad:
            tensor = tensor.detach()
        place = tensor.device
        if self.kind == "torch" and (self.home is None or self.home.type == "cpu"):
            self.home = place
        on_host = place.type == "cpu"
        where = _HOST if on_host else {"cuda": self.dlpack}.get(place.type)
        if self.dlpack is None or where != self.dlpack:
            return self._send_numpy(numpy_of(tensor))
        if not on_host and not self._waited:
            # What torch queued before must be done: IREE works on a stream of its own.
            torch.cuda.current_stream(place).synchronize()
            self._waited = True
        # IREE wants the strides of C order spelled out even where no element depends on them.
        strides = _strides(tensor.shape)
        if tensor.stride() != strides:
            tensor = tensor.contiguous().as_strided(tensor.shape, strides)
        address = tensor.data_ptr()
        if address % ALIGNMENT:
            tensor = tensor.clone()
            address = tensor.data_ptr()
        self.shared.append((address, tensor.nbytes))
        self.kept.append(tensor)
        return self.device.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(tensor))

    def _send_jax(self, array: Any) -> Any:
        if self.kind == "jax" and self.home is None:
            self.home = next(iter(array.devices()))
        platforms = {"cpu": _HOST, "cuda": _CUDA, "gpu": _CUDA, "rocm": _ROCM}
        devices = array.devices()
        if len(devices) == 1 and self.dlpack == platforms.get(next(iter(devices)).platform):
            array.block_until_ready()
            if array.unsafe_buffer_pointer() % ALIGNMENT == 0:
                self.kept.append(array)
                return self.device.from_dlpack_capsule(array.__dlpack__())
        return self._send_numpy(np.asarray(array))

    def _send_numpy(self, array: Any) -> Any:
        import iree.runtime as rt

        dtype = array.dtype
        flags = array.flags
        if not (flags.c_contiguous and dtype.isnative):
            dtype = dtype.newbyteorder("=")
            array = np.asarray(array, dtype=dtype, order="C")
            flags = array.flags
        shape = array.shape
        raw = array.reshape(-1).view(np.uint8)
        if self.dlpack == _HOST and flags.writeable and raw.size:
            address = _address(raw)
            if address % ALIGNMENT == 0:
                self.shared.append((address, raw.nbytes))
                buffer = self.device.allocator.import_host_allocation(raw, *_imported())
                self.kept.append((raw, buffer))
                return rt.HalBufferView(buffer, shape, _element_type(dtype))
        return self._upload(raw, shape, dtype)

    def _upload(self, raw: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Copies bytes to the device."""
        import iree.runtime as rt

        buffer = self.device.allocator.allocate_buffer_copy(
            memory_type=int(rt.MemoryType.DEVICE_LOCAL),
            allowed_usage=int(rt.BufferUsage.DEFAULT),
            device=self.device,
            buffer=raw,
        )
        return rt.HalBufferView(buffer, shape, _element_type(dtype))

    # --- results ---------------------------------------------------------------------------------

    def receive(self, view: Any, spec: TensorSpec | None) -> Any:
        """The array of a result, on the device and of the kind of the arguments.

        Args:
          view: the result's buffer view.
          spec: what the model says it is; None when nothing is known of it.
        """
        if self.kind == "numpy" or self.dlpack is None:
            array = self._numpy(view, spec)
            if self.kind == "torch":
                return torch_of(array).to(self.home)
            if self.kind == "jax":
                return sys.modules["jax"].device_put(array, self.home)
            return array
        if self.kind == "jax":
            import jax.dlpack

            exported = _Exported(self.device, view, self.dlpack, self._index())
            return jax.device_put(jax.dlpack.from_dlpack(exported), self.home)
        capsule = self.device.create_dlpack_capsule(view, self.dlpack, self._index())
        tensor = sys.modules["torch"].utils.dlpack.from_dlpack(capsule)
        if self._is_shared(tensor.data_ptr(), tensor.nbytes):
            tensor = tensor.clone()
        return tensor if tensor.device == self.home else tensor.to(self.home)

    def _numpy(self, view: Any, spec: TensorSpec | None) -> Any:
        dtype, shape = _dtype(view.element_type), view.shape
        size = math.prod(shape) * dtype.itemsize
        if not size:
            return np.empty(shape, dtype)
        source = view.get_buffer()
        if self.dlpack != _HOST:
            source = self._to_host(source)
        # With several axes `asarray` of iree-runtime 3.13 returns a view, and ties the memory to it
        # alone; numpy leaves it out of the bases of slices, which then read freed memory.
        raw = source.map().asarray([source.byte_length()], _BYTE)
        array = raw[:size].view(dtype).reshape(shape)
        if spec is not None and spec.dtype.startswith("ui"):
            array = array.view(numpy_dtype(spec.dtype))
        return array.copy() if self._is_shared(_address(raw), size) else array

    def _to_host(self, source: Any) -> Any:
        """A copy of a device's buffer in memory that can be mapped."""
        import iree.runtime as rt

        staged = self.device.allocator.allocate_buffer(
            memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        semaphore = self.device.create_semaphore(0)
        self.device.queue_copy(
            source,
            staged,
            wait_semaphores=rt.HalFence.create_at(semaphore, 0),
            signal_semaphores=rt.HalFence.create_at(semaphore, 1),
        )
        rt.HalFence.create_at(semaphore, 1).wait()
        return staged

    def _index(self) -> int:
        """The number of the device among those of its type."""
        return getattr(self.home, "index", None) or 0

    def _is_shared(self, address: int, size: int) -> bool:
        """Whether a result lies in an argument or in another result.

        A model may return what it was given, and of equal results IREE computes one.
        """
        if self.copies and any(at < address + size and address < at + n for at, n in self.shared):
            return True
        self.shared.append((address, size))
        return False


def written(result: Any, out: Any, where: str) -> Any:
    """Copies a result into the array that the caller has for it, and returns that one.

    A result that is this array already was written by the program.

    Args:
      result: an array of any kind, or a number.
      out: a writable array of numpy or torch, of the result's shape and element type.
      where: names the result, for the error.

    Raises:
      CallError: it is another kind of array, or does not fit.
    """
    if result is out:
        return out
    kind = kind_of(out)
    if kind not in ("numpy", "torch") or isinstance(out, np.generic):
        raise CallError(
            f"{where}: out is of type {type(out).__name__}; an array of numpy or torch would be"
            " accepted"
        )
    if kind_of(result) is None:
        result = np.asarray(result, out.dtype if kind == "numpy" else None)
    elif result.shape != out.shape or _signless(dtype_name(result)) != _signless(dtype_name(out)):
        got, has = (TensorSpec(tuple(a.shape), dtype_name(a)) for a in (result, out))
        raise CallError(f"{where}: out is {has}; expected {got}")
    if kind == "numpy":
        if not out.flags.writeable:
            raise CallError(f"{where}: out cannot be written; a writable array would be accepted")
        array = numpy_of(result)
        np.copyto(out, array if array.dtype == out.dtype else array.view(out.dtype))
    else:
        tensor = result if kind_of(result) == "torch" else torch_of(np.asarray(result))
        out.detach().copy_(tensor if tensor.dtype == out.dtype else tensor.view(out.dtype))
    return out


class _Exported:
    """A buffer view as torch and JAX want to see it."""

    def __init__(self, device: Any, view: Any, kind: int, index: int) -> None:
        self._device = device
        self._view = view
        self._where = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._where

    def __dlpack__(self, **_: Any) -> Any:
        return self._device.create_dlpack_capsule(self._view, *self._where)


@functools.cache
def _dlpack_type(uri: str) -> int | None:
    return _DLPACK.get(uri.partition(":")[0])


@functools.lru_cache(maxsize=1024)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _address(array: Any) -> int:
    """The first byte; asking for `array.ctypes` takes three times as long."""
    address: int = array.__array_interface__["data"][0]
    return address


@functools.cache
def _imported() -> tuple[int, int]:
    """Memory type and usage of memory that is the caller's."""
    import iree.runtime as rt

    return (
        int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING),
    )


@functools.cache
def _dtype(element_type: int) -> np.dtype[Any]:
    """Numpy's element type for iree-runtime's."""
    import iree.runtime as rt

    found: np.dtype[Any] = np.dtype(rt.HalElementType.map_to_dtype(element_type))
    return found


@functools.cache
def _element_type(dtype: np.dtype[Any]) -> Any:
    from iree.runtime.dtypes import map_dtype_to_hal_element_type

    found = map_dtype_to_hal_element_type(dtype)
    if found is None:
        raise CallError(f"element type {dtype} has no counterpart in iree-runtime")
    return int(found)


def numpy_of(array: Any) -> Any:
    """An array of any kind as one of numpy, on the host; numpy knows fewer types than torch."""
    if kind_of(array) != "torch":
        return np.asarray(array)
    raw = array.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
    return raw.view(numpy_dtype(dtype_name(array))).reshape(array.shape)


def torch_of(array: Any) -> Any:
    """A tensor that shares the memory of an array; torch knows more types than numpy."""
    torch = sys.modules["torch"]
    if not array.flags.writeable:
        array = array.copy()
    dtype = getattr(torch, array.dtype.name)
    return torch.from_numpy(array.reshape(-1).view(np.uint8)).view(dtype).reshape(array.shape)
