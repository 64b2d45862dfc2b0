"""Runs the program of a row through each system on a device.

stock, stock_best        IREE with its default flags, and with its highest level
default, kernels         mlirfuse with its default preset, and with the feature `kernels`
replayed                 `kernels` as a CUDA graph; for blocks
eager                    PyTorch; images with channels last
torch_compile            torch.compile with its defaults
max_autotune             the same with mode `max-autotune`; without CUDA graphs for operators
reduce_overhead          the same with mode `reduce-overhead`; for blocks
xla                      jax.jit; attention by cuDNN where it takes it

Every system gets its arguments on the device, in the layout that suits it best. Weights of blocks
are bound before the calls: as parameters of PyTorch and IREE, as arrays of JAX.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import parameters, with_torch
from benchmarks.gpu.rows import CHANNELS_LAST, Row
from benchmarks.gpu.systems import CHANNELS_LAST_PROGRAMS, OURS, PROGRAM, STOCK
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.replay import Graph

Tensors = Sequence[torch.Tensor]

DLPACK_CUDA = 2
"""DLPack's device type."""


class System(abc.ABC):
    """A row compiled by one system, with its arguments bound."""

    @abc.abstractmethod
    def call(self, copy: int) -> Any:
        """Queues a call with one of the copies of the arguments."""

    @abc.abstractmethod
    def tensors(self, found: Any) -> list[torch.Tensor]:
        """The results of a call, in PyTorch's layout."""

    def wait(self, found: Any) -> None:
        """Waits until the call that returned `found` is done."""
        torch.cuda.synchronize()


def make_system(system: str, row: Row, copies: Sequence[Tensors], folder: Path) -> System:
    """Compiles a row with a system, and calls it once.

    Args:
      system: one of `systems.SYSTEMS`.
      row: the row.
      copies: copies of its arguments, between which the timer rotates.
      folder: directory of the programs that `make` wrote.
    """
    if system in OURS + STOCK:
        axes = CHANNELS_LAST if system in CHANNELS_LAST_PROGRAMS else {}
        made = _Replayed if system == "replayed" else _Iree
        return made(folder / f"{row.name}.{PROGRAM.get(system, system)}.vmfb", row, axes, copies)
    if system == "xla":
        return _Xla(row, copies)
    return _Torch(system, row, copies)


# --- PyTorch -----------------------------------------------------------------------------------


class WithParameters(torch.nn.Module):  # type: ignore[misc]
    """A row whose weights are parameters; CUDA graphs copy other tensors at each call."""

    def __init__(self, row: Row, weights: Tensors) -> None:
        super().__init__()
        self.program = row.program
        # Not a ParameterList: torch.compile of PyTorch 2.11 cannot unpack an empty one.
        self.count = len(weights)
        for index, weight in enumerate(weights):
            setattr(self, f"weight{index}", torch.nn.Parameter(weight, requires_grad=False))

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Runs the row's program."""
        weights = [getattr(self, f"weight{index}") for index in range(self.count)]
        return self.program(with_torch, *inputs, *weights)


class _Torch(System):
    def __init__(self, system: str, row: Row, copies: Sequence[Tensors]) -> None:
        placed = [
            [with_torch.placed(t, a.layout) for t, a in zip(copy, row.arguments, strict=True)]
            for copy in copies
        ]
        self._inputs = [copy[: row.inputs] for copy in placed]
        made = WithParameters(row, placed[0][row.inputs :]).eval()
        options: dict[str, Any] | None = {
            "eager": None,
            "torch_compile": {},
            "max_autotune": {"mode": "max-autotune" if row.block else "max-autotune-no-cudagraphs"},
            "reduce_overhead": {"mode": "reduce-overhead"},
        }[system]
        if options is not None:
            torch._dynamo.reset()
            made = torch.compile(made, dynamic=False, **options)
        self._call = torch.inference_mode()(made)
        # CUDA graphs are recorded by the second and the third call.
        for _ in range(3):
            self.wait(self.call(0))

    def call(self, copy: int) -> Any:
        return self._call(*self._inputs[copy])

    def tensors(self, found: Any) -> list[torch.Tensor]:
        return [t.clone() for t in (found if isinstance(found, tuple) else (found,))]


# --- XLA ---------------------------------------------------------------------------------------


class _Xla(System):
    def __init__(self, row: Row, copies: Sequence[Tensors]) -> None:
        import jax

        from benchmarks.gpu import with_jax

        self._row = row
        self._axes = with_jax.LAYOUTS
        self._copies = [
            [self._array(t, a.layout) for t, a in zip(copy, row.arguments, strict=True)]
            for copy in copies
        ]
        for implementation in ("cudnn", None):
            with_jax.implementation = implementation
            # A new function each time: jit caches its traces.
            self._function = jax.jit(functools.partial(row.program, with_jax))
            try:
                self.wait(self.call(0))
                break
            except Exception:  # cuDNN refuses with errors of many types.
                if implementation is None:
                    raise

    def _array(self, tensor: torch.Tensor, layout: str) -> Any:
        import jax

        if layout in self._axes:
            tensor = tensor.permute(self._axes[layout]).contiguous()
        return jax.dlpack.from_dlpack(tensor)

    def call(self, copy: int) -> Any:
        return self._function(*self._copies[copy])

    def wait(self, found: Any) -> None:
        import jax

        jax.block_until_ready(found)

    def tensors(self, found: Any) -> list[torch.Tensor]:
        made = []
        for index, array in enumerate(found if isinstance(found, tuple) else (found,)):
            tensor = torch.from_dlpack(array)
            order = self._axes.get(self._row.layout(index))
            made.append(with_torch.restored(tensor.clone(), order))
        return made


# --- IREE --------------------------------------------------------------------------------------


class _Iree(System):
    """A `.vmfb` with its arguments on the device, called through iree-runtime directly."""

    recorded = False

    def __init__(
        self, path: Path, row: Row, axes: Mapping[str, Sequence[int]], copies: Sequence[Tensors]
    ) -> None:
        if not path.exists():
            raise MlirfuseError(f"no program {path.name}")
        import iree.runtime as rt

        self._device = _device(self.recorded)
        instance = rt.VmInstance()
        self._image = path.read_bytes()
        module = rt.VmModule.copy_buffer(instance, self._image)
        modules = [rt.create_hal_module(instance, self._device)]
        arguments = len(row.arguments)
        self._row, self._axes = row, axes
        if row.block:
            arguments = row.inputs
            weights = [t.cpu().contiguous() for t in self._moved(copies[0])[row.inputs :]]
            bytes_of = [t.reshape(-1).view(torch.uint8).numpy().tobytes() for t in weights]
            modules.append(parameters.provider(instance, bytes_of))
        self._context = rt.VmContext(instance, [*modules, module])
        names = [n for n in module.function_names if not n.startswith("__") and "$" not in n]
        self._function = module.lookup_function(names[0])
        self._kept: list[Any] = []
        self._given = [self._moved(copy)[:arguments] for copy in copies]
        self._arguments = [self._list(tensors) for tensors in self._given]
        self.wait(self.call(0))

    def _moved(self, tensors: Tensors) -> Tensors:
        """The arguments in the layout of the program."""
        return [
            with_torch.moved(tensor, self._axes.get(argument.layout))
            for tensor, argument in zip(tensors, self._row.arguments, strict=True)
        ]

    def _list(self, tensors: Tensors) -> Any:
        import iree.runtime as rt

        made = rt.VmVariantList(len(tensors))
        for tensor in tensors:
            made.push_ref(self._view(tensor))
        return made

    def _view(self, tensor: torch.Tensor) -> Any:
        import iree.runtime as rt

        raw = tensor.contiguous().reshape(-1).view(torch.uint8)
        self._kept.append(raw)
        # As bytes, because IREE does not import bf16 through DLPack.
        buffer = self._device.from_dlpack_capsule(raw.__dlpack__()).get_buffer()
        self._kept.append(buffer)
        return rt.HalBufferView(buffer, tuple(tensor.shape), _element_type(tensor.dtype))

    def call(self, copy: int) -> Any:
        return self._invoked(self._arguments[copy])

    def _invoked(self, arguments: Any) -> Any:
        import iree.runtime as rt

        results = rt.VmVariantList(3)
        self._context.invoke(self._function, arguments, results)
        return results

    def tensors(self, found: Any) -> list[torch.Tensor]:
        return [
            with_torch.restored(tensor.clone(), self._axes.get(self._row.layout(index)))
            for index, tensor in enumerate(self._results(found))
        ]

    def _results(self, found: Any) -> list[torch.Tensor]:
        """The results of a call, without a copy."""
        import iree.runtime as rt

        made = []
        for index in range(found.size):
            view = found.get_as_object(index, rt.HalBufferView)
            dtype = _torch_type(view.element_type)
            shape = list(view.shape)
            size = dtype.itemsize * math.prod(shape)
            raw = rt.HalBufferView(view.get_buffer(), (size,), int(rt.HalElementType.UINT_8))
            capsule = self._device.create_dlpack_capsule(raw, DLPACK_CUDA, 0)
            made.append(torch.from_dlpack(capsule).view(dtype).reshape(shape))
        return made


class _Replayed(_Iree):
    """A `.vmfb` called as a CUDA graph."""

    recorded = True

    def __init__(
        self, path: Path, row: Row, axes: Mapping[str, Sequence[int]], copies: Sequence[Tensors]
    ) -> None:
        self._graph: Graph | None = None
        super().__init__(path, row, axes, copies)
        self._graph = Graph(
            lambda tensors: self._results(self._invoked(self._list(tensors))),
            self._given[0],
            self._device,
        )

    def call(self, copy: int) -> Any:
        return super().call(copy) if self._graph is None else self._graph.launch(self._given[copy])

    def _results(self, found: Any) -> list[torch.Tensor]:
        return found if isinstance(found, list) else super()._results(found)


@functools.cache
def _device(recorded: bool) -> Any:
    from mlirfuse.runtime.devices import open_device

    return open_device("cuda", recorded=recorded)


def free_memory() -> None:
    """Releases memory that the systems' allocators cache."""
    torch.cuda.empty_cache()
    if _device.cache_info().currsize:
        for recorded in (False, True):
            _device(recorded).allocator.trim()


def _types() -> dict[torch.dtype, int]:
    import iree.runtime as rt

    kinds = rt.HalElementType
    return {
        torch.float16: int(kinds.FLOAT_16),
        torch.bfloat16: int(kinds.BFLOAT_16),
        torch.int8: int(kinds.INT_8),
    }


def _element_type(dtype: torch.dtype) -> int:
    return _types()[dtype]


def _torch_type(element_type: Any) -> torch.dtype:
    import iree.runtime as rt

    # Programs return signless i8; PyTorch's is signed.
    known = {value: dtype for dtype, value in _types().items()}
    known[int(rt.HalElementType.SINT_8)] = torch.int8
    return known[int(element_type)]
