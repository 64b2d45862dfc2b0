"""Arrays of numpy, PyTorch and JAX to buffer views of iree-runtime, and back.

Host memory is shared instead of copied where iree-runtime can use it: writable, in C order, and
aligned to 64 bytes. Results are views of the buffers that the program wrote.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
import warnings
from typing import Any

import numpy as np

from mlirfuse.core import CallError
from mlirfuse.runtime.arrays import (
    ALIGNMENT,
    STORED,
    Kind,
    dtype_name,
    dtype_spelling,
    kind_of,
    numpy_dtype,
    numpy_of,
    torch_of,
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

HOST, _CUDA, _ROCM = 1, 2, 10
"""Device types of DLPack."""

_DLPACK = {"local-task": HOST, "local-sync": HOST, "cuda": _CUDA, "hip": _ROCM}
"""Driver of iree-runtime -> device type under which its buffers are exchanged."""

_JAX_PLATFORMS = {"cpu": HOST, "cuda": _CUDA, "gpu": _CUDA, "rocm": _ROCM}
"""Platform of a JAX device -> device type of DLPack."""


@dataclasses.dataclass(slots=True)
class Exchange:
    """Passes arrays to one call on one device, and its results back.

    Attributes:
      uri: the device's URI.
      device: its `HalDevice`.
      kind: package of the results' arrays.
      copies: whether a result that overlaps an argument or another result is copied.
      shared: the memory of arguments and results.
      owners: objects that own that memory. iree-runtime 3.13 drops the owner of imported memory
        together with the Python object of the buffer, though views of it live on.
      home: the torch or JAX device of the arguments.
      dlpack: DLPack's type of the device; None where buffers cannot be exchanged.
    """

    uri: str
    device: Any
    kind: Kind
    copies: bool = True
    shared: Shared = dataclasses.field(default_factory=list)
    owners: list[Any] = dataclasses.field(default_factory=list)
    home: Any = None
    dlpack: int | None = dataclasses.field(init=False)
    _synchronized: bool = False

    def __post_init__(self) -> None:
        """Looks up the DLPack type of the device."""
        self.dlpack = dlpack_type(self.uri)

    def send(self, value: Any) -> Any:
        """The buffer view of an argument."""
        kind = kind_of(value)
        if kind == "torch":
            return self._send_torch(value)
        if kind == "jax":
            return self._send_jax(value)
        return self._send_numpy(np.asarray(value))

    def _send_torch(self, tensor: Any) -> Any:
        import iree.runtime as rt

        torch = sys.modules["torch"]
        if tensor.requires_grad:
            if torch.is_grad_enabled():
                _warn_of_gradients()
            tensor = tensor.detach()
        device = tensor.device
        if self.kind == "torch" and (self.home is None or self.home.type == "cpu"):
            self.home = device
        on_host = device.type == "cpu"
        dlpack = HOST if on_host else {"cuda": self.dlpack}.get(device.type)
        if self.dlpack is None or dlpack != self.dlpack or not tensor.numel():
            return self._send_numpy(numpy_of(tensor))
        if not on_host and not self._synchronized:
            # Work that torch queued before must be done: IREE uses a stream of its own.
            torch.cuda.current_stream(device).synchronize()
            self._synchronized = True
        # IREE expects the strides of C order even for axes of size 1.
        strides = c_order_strides(tensor.shape)
        if tensor.stride() != strides:
            tensor = tensor.contiguous().as_strided(tensor.shape, strides)
        address = tensor.data_ptr()
        if address % ALIGNMENT:
            tensor = tensor.clone()
            address = tensor.data_ptr()
        self.shared.append((address, tensor.nbytes))
        self.owners.append(tensor)
        # iree-runtime 3.13 takes no DLPack tensor of eight-bit floats: bytes go, and the type.
        bytewise = is_float8(dtype_name(tensor))
        raw = tensor.view(torch.uint8) if bytewise else tensor
        view = self.device.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(raw))
        if not bytewise:
            return view
        stored = hal_element_type(numpy_dtype(dtype_name(tensor)))
        return rt.HalBufferView(view.get_buffer(), tuple(tensor.shape), stored)

    def _send_jax(self, array: Any) -> Any:
        if self.kind == "jax" and self.home is None:
            self.home = next(iter(array.devices()))
        devices = array.devices()
        if is_float8(dtype_name(array)):
            return self._send_numpy(np.asarray(array))
        if (
            array.size
            and len(devices) == 1
            and self.dlpack == _JAX_PLATFORMS.get(next(iter(devices)).platform)
        ):
            array.block_until_ready()
            if array.unsafe_buffer_pointer() % ALIGNMENT == 0:
                self.owners.append(array)
                return self.device.from_dlpack_capsule(array.__dlpack__())
        return self._send_numpy(np.asarray(array))

    def _send_numpy(self, array: Any) -> Any:
        import iree.runtime as rt

        dtype = array.dtype
        if not (array.flags.c_contiguous and dtype.isnative):
            dtype = dtype.newbyteorder("=")
            array = np.asarray(array, dtype=dtype, order="C")
        raw = bytes_in_order(array)
        buffer = None
        if self.dlpack == HOST:
            buffer = imported(raw, self.device, self.shared, self.owners)
        if buffer is None:
            buffer = uploaded(raw, self.device)
        return rt.HalBufferView(buffer, array.shape, hal_element_type(dtype))

    def receive(self, view: Any, spec: TensorSpec | None) -> Any:
        """The array of a result, on the device and of the kind of the arguments.

        Args:
          view: the result's buffer view.
          spec: its spec from the model; None when it is not known.
        """
        if self.dlpack is None or not self._is_exchangeable() or _holds_float8(view.element_type):
            array = self._numpy(view, spec)
            if self.kind == "torch":
                return torch_of(array).to(self.home)
            if self.kind == "jax":
                return sys.modules["jax"].device_put(array, self.home)
            return array
        if self.kind == "jax":
            return jax_array(self.device, view, self.dlpack, self._device_index(), self.home)
        torch = sys.modules["torch"]
        capsule = self.device.create_dlpack_capsule(view, self.dlpack, self._device_index())
        tensor = torch.utils.dlpack.from_dlpack(capsule)
        if (dtype := torch_integer(spec)) is not None:
            tensor = tensor.view(dtype)
        if self._is_shared(tensor.data_ptr(), tensor.nbytes):
            tensor = tensor.clone()
        return tensor if tensor.device == self.home else tensor.to(self.home)

    def _is_exchangeable(self) -> bool:
        """Whether the package of the arguments takes buffers of this device.

        Where its arrays are on the host, it may be built without support for the device.
        """
        if self.kind == "numpy":
            return False
        if self.kind == "jax" and self.home is not None:
            return _JAX_PLATFORMS.get(self.home.platform) == self.dlpack
        return self.home is None or (self.home.type == "cpu") == (self.dlpack == HOST)

    def _numpy(self, view: Any, spec: TensorSpec | None) -> Any:
        dtype, shape = _dtype(view.element_type), view.shape
        size = math.prod(shape) * dtype.itemsize
        stated = dtype if spec is None else stated_type(dtype, spec.dtype)
        if not size:
            return np.empty(shape, stated)
        source = view.get_buffer()
        if self.dlpack != HOST:
            source = self._to_host(source)
        raw = mapped(source)
        array = np.ndarray(shape, stated, raw)
        return array.copy() if self._is_shared(address_of(raw), size) else array

    def _to_host(self, source: Any) -> Any:
        """A copy of a device buffer in memory that the host can map."""
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

    def _device_index(self) -> int:
        """Index of the device among those of its type."""
        return getattr(self.home, "index", None) or 0

    def _is_shared(self, address: int, size: int) -> bool:
        """Whether a result overlaps an argument or another result.

        A model may return one of its arguments, and IREE computes equal results once.
        """
        return self.copies and is_shared(address, size, self.shared)


def jax_array(device: Any, view: Any, dlpack: int, index: int, home: Any) -> Any:
    """A result as an array of JAX that shares its memory.

    Args:
      device: the `HalDevice` of the result.
      view: its buffer view.
      dlpack: DLPack's type of the device.
      index: index of the device among those of its type.
      home: the JAX device of the arguments.
    """
    import jax.dlpack

    array = jax.dlpack.from_dlpack(_DlpackView(device, view, dlpack, index))
    # `device_put` takes 30 microseconds, also for an array that is there already.
    return array if array.devices() == {home} else jax.device_put(array, home)


def torch_integer(spec: TensorSpec | None) -> Any:
    """PyTorch's type of a result of integers, whose sign the program does not know; else None."""
    name = None if spec is None else _integer_type(spec.dtype)
    return None if name is None else getattr(sys.modules["torch"], name)


def is_float8(mlir: str) -> bool:
    """Whether an element type in MLIR's spelling is one that DLPack lacks."""
    return mlir.startswith("f8")


@functools.cache
def _holds_float8(element_type: int) -> bool:
    return _dtype(element_type).name.startswith("float8")


class _DlpackView:
    """A buffer view with the methods of the array API's `from_dlpack`."""

    def __init__(self, device: Any, view: Any, kind: int, index: int) -> None:
        self._device = device
        self._view = view
        self._dlpack_device = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._dlpack_device

    def __dlpack__(self, **_: Any) -> Any:
        return self._device.create_dlpack_capsule(self._view, *self._dlpack_device)


@functools.cache
def _integer_type(stated: str) -> str | None:
    """PyTorch's name of an integer type of whole bytes; a returned argument has its own."""
    return numpy_dtype(stated).name if re.fullmatch(r"u?i(8|16|32|64)", stated) else None


@functools.lru_cache(maxsize=256)
def stated_type(found: np.dtype[Any], stated: str) -> np.dtype[Any]:
    """The type of a result by the model, which knows signs and types that are stored as bytes."""
    if found.kind not in "iu" or not (stated in STORED or re.fullmatch(r"u?i\d+", stated)):
        return found
    wanted = numpy_dtype(stated)
    return wanted if wanted.itemsize == found.itemsize else found


@functools.cache
def dlpack_type(uri: str) -> int | None:
    """DLPack's type of a device; None where buffers cannot be exchanged."""
    return _DLPACK.get(uri.partition(":")[0])


@functools.lru_cache(maxsize=1024)
def c_order_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@functools.cache
def _warn_of_gradients() -> None:
    """Warns, once in a process."""
    warnings.warn(
        "an argument requires a gradient, and the results of a compiled program have none: call it "
        "under torch.no_grad(), or use torch.compile(backend='mlirfuse')",
        stacklevel=6,
    )


@functools.cache
def _dtype(element_type: int) -> np.dtype[Any]:
    """Numpy's element type for iree-runtime's."""
    import iree.runtime as rt

    found: np.dtype[Any] = np.dtype(rt.HalElementType.map_to_dtype(element_type))
    return found


@functools.cache
def hal_element_type(dtype: np.dtype[Any]) -> Any:
    """Iree-runtime's element type for numpy's.

    Raises:
      CallError: it has none.
    """
    from iree.runtime.dtypes import map_dtype_to_hal_element_type

    if dtype_spelling(dtype) in STORED:
        dtype = np.dtype(np.uint8)
    found = map_dtype_to_hal_element_type(dtype)
    if found is None:
        raise CallError(f"element type {dtype} has no counterpart in iree-runtime")
    return int(found)
