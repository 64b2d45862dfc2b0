"""A program loaded on a device of iree-runtime, and its calls."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.runtime import arrays, huge_pages
from mlirfuse.runtime.abi import DECLARATION, scalar_types
from mlirfuse.runtime.arrays import Kind
from mlirfuse.runtime.devices import first_line, open_device
from mlirfuse.runtime.exchange import HOST, Exchange, dlpack_type
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.memory_pressure import make_room, with_room
from mlirfuse.runtime.parameters import MODULE, Archives, parameters_module
from mlirfuse.runtime.prepared_call import PreparedCall, prepare
from mlirfuse.runtime.replay import GraphCache, exclusive
from mlirfuse.runtime.residency import check_resident
from mlirfuse.runtime.scheduling import FEATURE, BatchScheduling
from mlirfuse.support.signature import TensorSpec

_ALONE = contextlib.nullcontext()
"""Of a call that wakes no threads; one is made once, since that takes as long as its use."""


class Session:
    """A program loaded on a device.

    Attributes:
      source: file name or model name, for messages.
      device: the `HalDevice`.
      uri: its URI.
      replays: whether calls are CUDA graphs where they can.
    """

    def __init__(
        self,
        image: Image,
        manifest: Manifest,
        threads: int | None,
        *,
        cuda_graph: bool = False,
        automatic: bool = False,
        archives: Archives | None = None,
        debug_sink: Any = None,
    ) -> None:
        """Loads the program.

        Args:
          image: its bytes.
          manifest: function, signature and device.
          threads: see `open_device`.
          cuda_graph: whether calls will be replayed as CUDA graphs; see `replay`.
          automatic: whether nobody asked for that, so that no warning says why it is not done.
          archives: of its parameters, by scope.
          debug_sink: IREE's `HalModuleDebugSink`, which is given the tensors that the program
            traces; None for the standard error stream.

        Raises:
          UsageError: an archive cannot be read, or one is missing.
          MlirfuseError: the device is not available or cannot run the program.
        """
        import iree.runtime as rt

        self.source = manifest.source
        self.device = open_device(manifest.device, threads, recorded=cuda_graph)
        check_resident(manifest.device, manifest.waiting_workgroups, manifest.source)
        self.uri = manifest.device
        self._inputs, self._outputs = manifest.inputs, manifest.outputs
        self._permutes = any(spec.order for spec in (*self._inputs, *self._outputs))
        self.replays = cuda_graph
        level = logging.INFO if automatic else logging.WARNING
        self._graphs = GraphCache(
            manifest.source, self.device, level=level, detached=manifest.report.detached
        )
        instance = rt.VmInstance()
        large = bool(archives) or len(image.data) >= huge_pages.LEAST
        wanted = large and manifest.device.startswith("local-")
        wanted = wanted and not manifest.report.disables(huge_pages.FEATURE)
        try:
            module = rt.VmModule.wrap_buffer(instance, image.data)
            modules = [rt.create_hal_module(instance, self.device, debug_sink=debug_sink)]
            if archives:
                modules.append(parameters_module(instance, archives))
            # Initializers allocate the constants.
            with huge_pages.of_new_memory(wanted=wanted):
                self._context = with_room(
                    self.device, lambda: rt.VmContext(instance, [*modules, module])
                )
            self._function = module.lookup_function(manifest.function)
            if self._function is None:
                raise ValueError(f"it has no function '{manifest.function}'")
        except (ValueError, RuntimeError) as error:
            if MODULE in str(error) and not archives:
                raise UsageError(
                    f"{manifest.source} has parameters, which come from an archive:"
                    " parameters={'SCOPE': 'FILE.irpa'} of load, or --parameters, would be accepted"
                ) from error
            raise MlirfuseError(
                f"{manifest.source} cannot be loaded on device '{manifest.device}':"
                f" {first_line(error)}"
            ) from error
        self._invoke = self._context.invoke
        off = manifest.report.disables(FEATURE)
        is_woken = manifest.device.startswith("local-task") and not off
        self._waiting = BatchScheduling if is_woken else None
        declaration = self._function.reflection.get(DECLARATION, "")
        self._scalars = scalar_types(declaration, len(manifest.inputs))
        # An import statement in the function of each call takes as long as a push.
        self._list, self._view = rt.VmVariantList, rt.HalBufferView
        self._lock = threading.Lock()

    def replay(self, values: Sequence[Any], out: Sequence[Any]) -> list[Any] | None:
        """Queues a call with checked arguments as a CUDA graph; None where that is not possible.

        Args:
          values: the arguments.
          out: arrays that results may be written to: one for each result, or none at all.
        """
        fits = len(out) == len(self._outputs)
        if not self._permutes:
            return self._graphs(self._call_without_copies, values, out if fits else ())
        stored = self._graphs(
            self._call_without_copies,
            self._in_memory_order(values),
            [arrays.permuted(o, s.order) for o, s in zip(out, self._outputs, strict=True)]
            if fits
            else (),
        )
        return None if stored is None else self._as_the_model_has_them(stored)

    def __del__(self) -> None:
        """Lets launched graphs end before the program is unloaded."""
        if (graphs := getattr(self, "_graphs", None)) is not None:
            graphs.close()

    def _call_without_copies(self, tensors: Sequence[Any]) -> list[Any]:
        exchange = Exchange(self.uri, self.device, "torch", copies=False)
        return self._call(tensors, exchange)

    def _in_memory_order(self, values: Sequence[Any]) -> list[Any]:
        """Arguments of the model as those of the program."""
        pairs = zip(values, self._inputs, strict=True)
        return [arrays.permuted(value, spec.order) for value, spec in pairs]

    def _as_the_model_has_them(self, results: Sequence[Any]) -> list[Any]:
        """Results of the program as those of the model."""
        pairs = zip(results, self._outputs, strict=True)
        return [arrays.permuted(value, spec.inverse) for value, spec in pairs]

    def call(self, values: Sequence[Any], kind: Kind) -> list[Any]:
        """Calls the function with checked arguments, and waits.

        Args:
          values: the arguments.
          kind: package of the results' arrays.

        Raises:
          MlirfuseError: the program failed.
        """
        exchange = Exchange(self.uri, self.device, kind)
        if not self._permutes:
            return self._call(values, exchange)
        return self._as_the_model_has_them(self._call(self._in_memory_order(values), exchange))

    def prepared(self, values: Sequence[Any], results: Sequence[Any]) -> PreparedCall | None:
        """A shorter call for arguments of the same types and shapes; None where there is none.

        Args:
          values: checked arguments of a call before.
          results: the results of that call.
        """
        if self.replays or self._permutes or any(s is not None for s in self._scalars):
            return None
        if dlpack_type(self.uri) != HOST:
            return None
        return prepare(values, results, self._outputs, self)

    def _call(self, values: Sequence[Any], exchange: Exchange) -> list[Any]:
        arguments = self._list(len(values))
        for value, scalar in zip(values, self._scalars, strict=True):
            if scalar is None:
                arguments.push_ref(exchange.send(value))
            elif scalar.startswith("f"):
                arguments.push_float(float(value))
            else:
                arguments.push_int(int(value))
        count = len(self._outputs)
        try:
            with exclusive() if self.replays else contextlib.nullcontext():
                results = self.invoke(arguments)
            if results.size == count:
                # A result may be a buffer that IREE has taken back.
                return [
                    self._result(results, index, exchange, spec)
                    for index, spec in enumerate(self._outputs)
                ]
        except (ValueError, RuntimeError) as error:
            raise self.failure(error) from error
        raise MlirfuseError(
            f"{self.source}: the program returned {results.size} results; its manifest declares"
            f" {count}"
        )

    def invoke(self, arguments: Any) -> Any:
        """Calls the function, and waits; calls of several threads run one after the other.

        Args:
          arguments: a list of iree-runtime.

        Returns:
          The list of its results.

        Raises:
          ValueError, RuntimeError: the program failed.
        """
        results = self._list(len(self._outputs))
        with self._lock, _ALONE if self._waiting is None else self._waiting():
            try:
                self._invoke(self._function, arguments, results)
            except RuntimeError as error:
                make_room(self.device, error)
                results = self._list(len(self._outputs))
                self._invoke(self._function, arguments, results)
        return results

    def failure(self, error: Exception) -> MlirfuseError:
        """The error of a call for that of iree-runtime."""
        return MlirfuseError(f"{self.source}: the call failed: {first_line(error)}")

    def _result(self, results: Any, index: int, exchange: Exchange, spec: TensorSpec) -> Any:
        value = results.get_variant(index)
        if isinstance(value, int | float):
            return value
        return exchange.receive(results.get_as_object(index, self._view), spec)
