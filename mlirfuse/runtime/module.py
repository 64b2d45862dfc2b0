"""`FusedModule`: a compiled program that is called like the model it was made from."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import report_html
from mlirfuse.core import CallError, Report, UsageError
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.runtime import arrays, pytree
from mlirfuse.runtime import manifest as manifests
from mlirfuse.runtime.abi import declared_manifest
from mlirfuse.runtime.call_arguments import by_inputs, named, takes_inputs
from mlirfuse.runtime.guards import Guard, check_policy, check_sizes
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.inputs import random_inputs
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.parameters import Archives
from mlirfuse.runtime.program_sessions import ProgramSessions, Settings
from mlirfuse.support.calling import bind
from mlirfuse.support.contained import LOG, described, trace

if TYPE_CHECKING:
    from mlirfuse.profiling.result import Profile

_MAX_CHECKED_TYPES = 64
"""Pairs of element type and shape that are remembered as checked for each argument."""


class FusedModule:
    """A program for iree-runtime, callable with arrays of numpy, torch or JAX.

    The results are arrays of the package of the arguments, on their device; arrays of numpy when
    the packages differ. Calls from several threads are safe and run one after the other.

    Attributes:
      inputs: shape and element type of each argument, in order.
      sizes: dynamic sizes of the arguments, with the ranges that the model was exported for.
      outputs: shape and element type of each result, in order.
      function: name of the function that is called.
      device: URI of the device that runs it. Calls of small programs for `local-task` change to
        `local-sync` where their first calls show that it is faster; see `inline_calls`.
      source: file name or model name.
      report: the groups made, the fusions refused and the reasons.
      measured: function -> times `fused_ms` and `stock_ms`, and the form that was `kept`; empty
        without `measure`.
    """

    def __init__(
        self,
        image: Image,
        manifest: Manifest,
        *,
        flatten: Callable[..., Sequence[Any]] | None = None,
        unflatten: Callable[[Sequence[Any]], Any] | None = None,
        threads: int | None = None,
        guard: Guard | None = None,
        cuda_graph: bool | None = None,
        parameters: Archives | None = None,
        keeps_device: bool = False,
    ) -> None:
        self._settings = Settings(threads, cuda_graph, dict(parameters or {}), keeps_device)
        self._sessions = ProgramSessions(image, manifest, self._settings)
        self._image = image
        self._manifest = manifest
        self._flatten = flatten
        self._unflatten = unflatten
        self._guard = guard or Guard()
        self.inputs = manifest.inputs
        self.sizes = manifest.sizes
        self.outputs = manifest.outputs
        self.function = manifest.function
        self.device = manifest.device
        self.source = manifest.source
        self.report: Report = manifest.report
        self.measured = manifest.measured
        self._takes_out = any(spec.name == "out" for spec in manifest.inputs)
        self._takes_inputs = takes_inputs(manifest.parameters, flatten, len(manifest.inputs))
        self._checked_types: list[set[tuple[Any, ...]]] = [set() for _ in manifest.inputs]

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Runs the program.

        Args:
          *args: arguments of the model, or the flat list of `inputs`.
          out: arrays of numpy or torch that the results are copied into, one for each of `outputs`
            in a tuple or list, or a single array; they are returned in place of the results. The
            guard handles no such call. A model's own argument of this name takes precedence.
          **kwargs: keyword arguments of the model, or by their names in `inputs`.

        Raises:
          CallError: count, shape or element type of the arguments are not the program's, and the
            guard only raises; or `out` does not fit.
          MlirfuseError: the device is not available, or the program failed on it.
        """
        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        prepared = self._sessions.prepared.latest
        try:
            is_flat = self._takes_inputs and not kwargs and len(args) == len(self.inputs)
            flat = args if is_flat else self._flat_arguments(args, kwargs)
            results = None if prepared is None else self._sessions.again(prepared, flat)
            values = self._checked(flat) if results is None else flat
        except CallError as error:
            if out is not None:
                raise
            return self._guard.handle(error, args, kwargs)
        if results is None:
            results = self._sessions.results(flat, values, _as_sequence(out))
        if out is not None:
            results = self._copied(results, out)
        if self._unflatten is not None:
            return self._unflatten(results)
        return pytree.restore(self._manifest.structure, results)

    def _copied(self, results: Sequence[Any], out: Any) -> list[Any]:
        given = _as_sequence(out)
        if len(given) != len(results):
            raise CallError(
                f"{self.source}: out holds {len(given)} arrays; expected {len(results)}"
            )
        return [
            arrays.copy_result(result, array, f"{self.source}: result {index}")
            for index, (result, array) in enumerate(zip(results, given, strict=True))
        ]

    def _checked(self, flat: Sequence[Any]) -> list[Any]:
        """The arguments as arrays, once their types, shapes and dynamic sizes are checked."""
        off = self._guard.policy == "off"
        values = list(flat)
        for index, value in enumerate(flat):
            known = self._checked_types[index]
            shape = getattr(value, "shape", None)
            if shape is None or (value.dtype, shape) not in known:
                convert = arrays.converted if off else arrays.checked
                where = self._argument_name(index)
                values[index] = value = convert(value, self.inputs[index], where)
                if len(known) == _MAX_CHECKED_TYPES:
                    known.clear()
                known.add((value.dtype, value.shape))
        if not off:
            check_sizes(self.sizes, values, self.inputs, self.source)
        return values

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: the program's bytes, the manifest and the settings.

        A restored program is one that was loaded from a file: it opens its device at the first
        call, describes the model's containers as far as a file does, and has no model for the
        guard.
        """
        policy = self._guard.policy if self._guard.policy == "off" else "error"
        data, path = bytes(self._image.data), self._image.path.name
        entry = self._manifest.to_dict()
        settings = self._settings.to_dict()
        return _restored, (data, path, self._image.has_manifest, entry, policy, settings)

    def __copy__(self) -> FusedModule:
        """A program of its own with the same bytes, model and settings."""
        return self._with(self._manifest, self._settings)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> FusedModule:
        """As `copy.copy`: the bytes of a program never change."""
        return self.__copy__()

    def _repr_html_(self) -> str:
        """A summary for notebooks."""
        rows = [
            ("inputs", ", ".join(map(named, self.inputs))),
            ("results", ", ".join(map(str, self.outputs))),
            ("device", self.device),
            *self.report.summary(),
        ]
        title = f"FusedModule {self.source}"
        return report_html.table(title, rows) + self.report.details_html()

    def __repr__(self) -> str:
        """Name, signature and target."""
        inputs = ", ".join(map(named, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"<FusedModule {self.source} for {self.report.target}: ({inputs}) -> ({outputs})>"

    @property
    def kernels(self) -> tuple[FinalKernel, ...]:
        """The dispatches of the program, in order; none for a file of an older mlirfuse."""
        return tuple(self.report.kernels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file for `mlirfuse.load`, which also runs with iree-runtime alone.

        Raises:
          UsageError: the path cannot be written.
        """
        from mlirfuse.support.atomic_file import replacing

        with replacing(Path(path)) as staged:
            self._image.write(staged)
            if not self._image.has_manifest:
                manifests.append(staged, self._manifest)

    def explain(self) -> str:
        """The groups made, the fusions refused and the reasons, as text."""
        from mlirfuse import explain

        try:
            return explain.text(self.report)
        except Exception as error:
            if self.report.disables("fallback"):
                raise
            trace(error)
            LOG.warning("%s: no explanation: %s", self.source, described(error))
            return f"no explanation: {described(error)}\n"

    def profile(
        self,
        *args: Any,
        calls: int = 30,
        threads: int | None = None,
        seed: int = 0,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Profile:
        """Measures the kernels in warm calls; on the CPU and Vulkan these are another process's.

        Args:
          *args: as for a call; without arguments of either kind, random ones.
          calls: number of calls that are measured.
          threads: threads on the CPU; None for this process's number, or IREE's.
          seed: seed of random arguments.
          timeout: seconds for all calls; None for no limit.
          **kwargs: as for a call.

        Raises:
          CallError: the arguments are not the program's.
          MlirfuseError: the device has no profiler, or the program failed on it.
        """
        from mlirfuse.runtime.profiled import profile

        if args or kwargs:
            flat = self._flat_arguments(args, kwargs)
        else:
            flat = random_inputs(self.inputs, seed, self.sizes)
        values = self._checked(flat)
        return profile(
            self._image,
            self._manifest,
            values,
            call=lambda: self._sessions.call(flat, values),
            parameters=self._settings.parameters,
            calls=calls,
            threads=threads or self._settings.threads,
            timeout=timeout,
        )

    def on(
        self,
        device: str,
        *,
        threads: int | None = None,
        cuda_graph: bool | None = None,
        parameters: Archives | None = None,
    ) -> FusedModule:
        """The same program on another device of its target.

        Args:
          device: `local-task` (several threads), `local-sync` (the calling thread alone),
            `cuda://1`, ... Neither of the first two is changed for the other one.
          threads: number of threads of `local-task`, if this process has not started them yet.
          cuda_graph: as for `load`.
          parameters: as for `load`; None for the present ones.

        Raises:
          UsageError: `cuda_graph` on another device than CUDA's, or an archive cannot be read.
        """
        manifest = dataclasses.replace(self._manifest, device=device)
        archives = self._settings.parameters if parameters is None else parameters
        other = self._with(manifest, Settings(threads, cuda_graph, archives, keeps_device=True))
        other._sessions.open()
        return other

    def with_parameters(self, parameters: Archives) -> FusedModule:
        """The same program with other parameters, on the device that its calls have come to.

        Args:
          parameters: as for `load`, or arrays by name.
        """
        device = self._sessions.settled
        manifest = self._manifest
        if device is not None:
            manifest = dataclasses.replace(manifest, device=device)
        keeps = self._settings.keeps_device or device is not None
        settings = dataclasses.replace(
            self._settings, parameters=dict(parameters), keeps_device=keeps
        )
        return self._with(manifest, settings)

    def _with(self, manifest: Manifest, settings: Settings) -> FusedModule:
        """The same program with other settings, not opened."""
        return FusedModule(
            self._image,
            manifest,
            flatten=self._flatten,
            unflatten=self._unflatten,
            guard=self._guard,
            **settings.to_dict(),
        )

    def _flat_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments as a flat list, in the order of `inputs`.

        A fresh and a loaded program take the same calls: in the model's own form, and with the flat
        list of `inputs`, by position or by their names.

        Raises:
          CallError: the call has none of these forms.
        """
        parameters = self._manifest.parameters
        failure: CallError | None = None
        if parameters:
            try:
                return bind(parameters, args, kwargs, len(self.inputs), self.source)
            except CallError as error:
                failure = error
        if self._flatten is not None:  # it knows containers that a manifest cannot describe
            try:
                return list(self._flatten(*args, **kwargs))
            except CallError as error:
                failure = error
        try:
            return by_inputs(args, kwargs, self.inputs, self.source)
        except CallError as error:
            raise failure or error from None

    def _argument_name(self, index: int) -> str:
        name = self.inputs[index].name or str(index)
        return f"{self.source}: argument '{name}'"


def _as_sequence(out: Any) -> Sequence[Any]:
    if out is None:
        return ()
    return out if isinstance(out, tuple | list) else (out,)


def _restored(
    data: bytes,
    name: str,
    has_manifest: bool,
    entry: dict[str, Any],
    policy: str,
    settings: Mapping[str, Any],
) -> FusedModule:
    """The program of a pickle; see `FusedModule.__reduce__`."""
    image = Image.of(data, Path(name))
    image.has_manifest = has_manifest
    return FusedModule(image, Manifest.from_dict(entry), guard=Guard(policy), **settings)


def load(
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    guard: str | None = None,
    cuda_graph: bool | None = None,
    parameters: Archives | None = None,
) -> FusedModule:
    """Loads a program from a `.vmfb` file.

    Args:
      path: file written by `FusedModule.save` or `mlirfuse-compile`; a program of `iree-compile`
        works too when its functions declare their types.
      function: name of the function to call; None for the one that the program was compiled for.
      device: URI of the device, which is kept; None for the one of its target, or the CPU, where
        calls of small programs may change to the calling thread, `local-sync`.
      threads: number of threads on the CPU, if this process has not started them yet; None for
        `MLIRFUSE_THREADS`, or for iree-runtime's choice.
      guard: policy for calls with other shapes or types: `error`, or `off` to leave them to IREE's
        own checks; None for `off` where the program was compiled without the feature `guard`, else
        `error`. A file does not hold its model, so it cannot be compiled again.
      cuda_graph: whether to issue the commands of a call as one CUDA graph, for tensors of PyTorch
        on the GPU: recorded at the first call with each signature, later launched on PyTorch's
        current stream without waiting; results are ready in the order of the stream. Needs
        `cuda-bindings`. A call that cannot be replayed runs without a graph; the reason is logged
        once. None for graphs where shapes are static, the program has no state and was not
        compiled without the feature `cuda_graph`.
      parameters: scope -> archive that holds the program's parameters of that scope: `.irpa`,
        `.gguf` or `.safetensors`. It is read at the first call.

    Raises:
      UsageError: the file cannot be read, or has no such function; or `cuda_graph` on another
        device than CUDA's.
      MlirfuseError: the file is no program.
    """
    check_policy(guard or "error")
    if guard not in (None, "error", "off"):
        raise UsageError(f"guard={guard} needs the model; a program from a file has none")
    path = Path(path)
    image = Image(path)
    manifest = manifests.read(path)
    image.has_manifest = manifest is not None
    if manifest is None or function not in (None, manifest.function):
        manifest = declared_manifest(image, function, manifest)
    if device is not None:
        manifest = dataclasses.replace(manifest, device=device)
    if guard is None:
        guard = "off" if manifest.report.disables("guard") else "error"
    return FusedModule(
        image,
        manifest,
        threads=threads,
        guard=Guard(guard),
        cuda_graph=cuda_graph,
        parameters=parameters,
        keeps_device=device is not None,
    )
