"""`FusedModule`: a compiled program that is called like the model it was made from."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.core import CallError, MlirfuseError, Report, UsageError, nearest
from mlirfuse.runtime import manifest as manifests
from mlirfuse.runtime import pytree
from mlirfuse.runtime.guards import Guard, check_policy, check_sizes
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.parameters import MODULE, Archives, provided
from mlirfuse.runtime.replay import Graphs, alone
from mlirfuse.support.signature import TensorSpec

_SIGNATURES_SHOWN = 8
"""Arguments listed in a message about their number."""

_MOST_FITTING = 64
"""Element types and shapes that are kept as checked for each argument."""


class FusedModule:
    """A program for iree-runtime, callable with arrays of numpy, torch or JAX.

    The results are of the kind of the arguments, and on their device; numpy's when the kinds
    differ. Calls from several threads are safe and run one after the other.

    Attributes:
      inputs: shape and element type of each argument, in order.
      outputs: the same of each result.
      function: name of the function that is called.
      device: URI of the device that it runs on.
      source: file name or model name.
      report: what was fused, what was not, and why.
      measured: function -> `fused_ms`, `stock_ms` and which was `kept`; empty without `measure`.
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
        cuda_graph: bool = False,
        parameters: Archives | None = None,
    ) -> None:
        if cuda_graph and not manifest.device.startswith("cuda"):
            raise UsageError(
                f"{manifest.source}: cuda_graph=True needs a program for CUDA, not for device"
                f" '{manifest.device}'"
            )
        self._cuda_graph = cuda_graph
        self._image = image
        self._manifest = manifest
        self._flatten = flatten
        self._unflatten = unflatten
        self._threads = threads
        self._parameters = dict(parameters or {})
        self._guard = guard or Guard()
        self._session: Session | None = None
        self._lock = threading.Lock()
        self.inputs = manifest.inputs
        self.outputs = manifest.outputs
        self.function = manifest.function
        self.device = manifest.device
        self.source = manifest.source
        self.report: Report = manifest.report
        self.measured = manifest.measured
        self._takes_out = any(spec.name == "out" for spec in manifest.inputs)
        self._fitting: list[set[tuple[Any, ...]]] = [set() for _ in manifest.inputs]

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """Runs the program.

        Args:
          *args: what the model takes; for a loaded program the flat list of `inputs`.
          out: arrays of numpy or torch that the results are copied into, one for each of `outputs`
            in a tuple or list, or one alone; they are returned in place of the results. The
            guard answers no such call. A model's own argument of this name goes before.
          **kwargs: what the model takes; for a loaded program arguments by their names in `inputs`.

        Raises:
          CallError: number, shape or element type of the arguments are not the program's, and the
            guard has no other answer; or `out` does not fit.
          MlirfuseError: the device is not there, or the program failed on it.
        """
        from mlirfuse.runtime import arrays

        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        try:
            flat = self._arguments(args, kwargs)
            values = self._checked(flat)
        except CallError as error:
            if out is not None:
                raise
            return self._guard.answer(error, args, kwargs)
        session = self._session or self._opened()
        results = session.replayed(values, _listed(out)) if self._cuda_graph else None
        if results is None:
            exchange = arrays.Exchange(self.device, session.device, arrays.common_kind(flat))
            results = session.call(values, exchange)
        if out is not None:
            results = self._written(results, out)
        if self._unflatten is not None:
            return self._unflatten(results)
        return pytree.restore(self._manifest.structure, results)

    def _written(self, results: Sequence[Any], out: Any) -> list[Any]:
        from mlirfuse.runtime import arrays

        given = _listed(out)
        if len(given) != len(results):
            raise CallError(
                f"{self.source}: out holds {len(given)} arrays; expected {len(results)}"
            )
        return [
            arrays.written(result, array, f"{self.source}: result {index}")
            for index, (result, array) in enumerate(zip(results, given, strict=True))
        ]

    def _checked(self, flat: Sequence[Any]) -> list[Any]:
        """The arguments as arrays, when they are what the program was compiled for."""
        off = self._guard.policy == "off"
        values = list(flat)
        for index, value in enumerate(flat):
            known = self._fitting[index]
            shape = getattr(value, "shape", None)
            if shape is None or (value.dtype, shape) not in known:
                from mlirfuse.runtime import arrays

                look = arrays.converted if off else arrays.checked
                values[index] = value = look(value, self.inputs[index], self._place(index))
                if len(known) == _MOST_FITTING:
                    known.clear()
                known.add((value.dtype, value.shape))
        if not off:
            check_sizes(self._manifest.sizes, values, self.inputs, self.source)
        return values

    def __repr__(self) -> str:
        """Name, signature and target."""
        inputs = ", ".join(map(_named, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"<FusedModule {self.source} for {self.report.target}: ({inputs}) -> ({outputs})>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file that `mlirfuse.load` reads and that runs with iree-runtime alone.

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

        return explain.text(self.report)

    def on(
        self,
        device: str,
        *,
        threads: int | None = None,
        cuda_graph: bool = False,
        parameters: Archives | None = None,
    ) -> FusedModule:
        """The same program on another device that its target fits.

        Args:
          device: `local-task`, `local-sync` (the calling thread alone), `cuda://1`, ...
          threads: number of threads of `local-task`, before this process used it.
          cuda_graph: as for `load`.
          parameters: as for `load`; None for those that the program has.

        Raises:
          UsageError: `cuda_graph` and another device than CUDA's, or an archive cannot be read.
        """
        other = FusedModule(
            self._image,
            dataclasses.replace(self._manifest, device=device),
            flatten=self._flatten,
            unflatten=self._unflatten,
            threads=threads,
            guard=self._guard,
            cuda_graph=cuda_graph,
            parameters=self._parameters if parameters is None else parameters,
        )
        other._opened()
        return other

    def _opened(self) -> Session:
        """The program on its device; made by the first call, since one may compile without it."""
        with self._lock:
            if self._session is None:
                self._session = Session(
                    self._image,
                    self._manifest,
                    self._threads,
                    recorded=self._cuda_graph,
                    archives=self._parameters,
                )
            return self._session

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The flat list of arguments."""
        if self._flatten is not None:
            flat = list(self._flatten(*args, **kwargs))
        elif not kwargs:
            flat = [*args]
        else:
            flat = [*args]
            names = [spec.name for spec in self.inputs]
            for name in kwargs:
                if name not in names:
                    raise CallError(
                        f"{self.source}: no argument is called '{name}'"
                        f"{nearest(name, filter(None, names))}"
                    )
                if names.index(name) < len(args):
                    raise CallError(f"{self.source}: argument '{name}' is given twice")
            flat += [kwargs[name] for name in names[len(args) :] if name in kwargs]
        if len(flat) != len(self.inputs):
            shown = ", ".join(map(_named, self.inputs[:_SIGNATURES_SHOWN]))
            more = ", ..." if len(self.inputs) > _SIGNATURES_SHOWN else ""
            raise CallError(
                f"{self.source}: number of arguments is {len(flat)}; expected {len(self.inputs)}"
                f" ({shown}{more})"
            )
        return flat

    def _place(self, index: int) -> str:
        name = self.inputs[index].name or str(index)
        return f"{self.source}: argument '{name}'"


def _listed(out: Any) -> Sequence[Any]:
    if out is None:
        return ()
    return out if isinstance(out, tuple | list) else (out,)


def _named(spec: TensorSpec) -> str:
    return f"{spec.name}: {spec}" if spec.name else str(spec)


class Image:
    """The bytes of a `.vmfb`, mapped; they outlive the file's name."""

    def __init__(self, path: Path) -> None:
        """Maps a file, which may be removed afterwards.

        Raises:
          UsageError: it cannot be read.
          MlirfuseError: it is empty.
        """
        self.path = path
        self.has_manifest = False
        try:
            with path.open("rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError as error:
            raise MlirfuseError(f"{path} is empty; expected a program, a .vmfb file") from error

    def write(self, path: Path) -> None:
        """Writes the bytes to a file."""
        with path.open("wb") as file:
            file.write(self.data)


class Session:
    """A program loaded on a device."""

    def __init__(
        self,
        image: Image,
        manifest: Manifest,
        threads: int | None,
        *,
        recorded: bool = False,
        archives: Archives | None = None,
    ) -> None:
        """Loads the program.

        Args:
          image: its bytes.
          manifest: what is known of it.
          threads: see `open_device`.
          recorded: calls will be made CUDA graphs; see `replayed`.
          archives: of its parameters, by scope.

        Raises:
          UsageError: an archive cannot be read, or one is missing.
          MlirfuseError: the device is not there or cannot run the program.
        """
        import iree.runtime as rt

        from mlirfuse.runtime.devices import first_line, open_device

        self.source = manifest.source
        self.device = open_device(manifest.device, threads, recorded=recorded)
        self._uri = manifest.device
        self._outputs = manifest.outputs
        self._recorded = recorded
        self._graphs = Graphs(manifest.source)
        instance = rt.VmInstance()
        try:
            module = rt.VmModule.wrap_buffer(instance, image.data)
            modules = [rt.create_hal_module(instance, self.device)]
            if archives:
                modules.append(provided(instance, archives))
            self._context = rt.VmContext(instance, [*modules, module])
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
        declared = self._function.reflection.get("iree.abi.declaration", "")
        self._scalars = _scalars(declared, len(manifest.inputs))
        # An import statement in the function of each call takes as long as a push.
        self._list, self._view = rt.VmVariantList, rt.HalBufferView
        self._lock = threading.Lock()

    def replayed(self, values: Sequence[Any], out: Sequence[Any]) -> list[Any] | None:
        """Queues a call with checked arguments as a CUDA graph; None where there can be none.

        Args:
          values: the arguments.
          out: arrays that results may be written to; one for each, or none at all.
        """
        return self._graphs(self._again, values, out if len(out) == len(self._outputs) else ())

    def __del__(self) -> None:
        """Lets launched graphs end before the program is unloaded."""
        if (graphs := getattr(self, "_graphs", None)) is not None:
            graphs.close()

    def _again(self, tensors: Sequence[Any]) -> list[Any]:
        from mlirfuse.runtime.arrays import Exchange

        exchange = Exchange(self._uri, self.device, "torch", copies=False)
        return self.call(tensors, exchange)

    def call(self, values: Sequence[Any], exchange: Any) -> list[Any]:
        """Calls the function with checked arguments, and waits.

        Raises:
          MlirfuseError: the program failed.
        """
        outputs = self._outputs
        arguments = self._list(len(values))
        for value, scalar in zip(values, self._scalars, strict=True):
            if scalar is None:
                arguments.push_ref(exchange.send(value))
            elif scalar.startswith("f"):
                arguments.push_float(float(value))
            else:
                arguments.push_int(int(value))
        results = self._list(len(outputs))
        try:
            with alone() if self._recorded else contextlib.nullcontext(), self._lock:
                self._context.invoke(self._function, arguments, results)
            if results.size == len(outputs):
                # A result may be a buffer that IREE has taken back.
                places = enumerate(outputs)
                return [self._result(results, index, exchange, spec) for index, spec in places]
        except (ValueError, RuntimeError) as error:
            from mlirfuse.runtime.devices import first_line

            raise MlirfuseError(f"{self.source}: the call failed: {first_line(error)}") from error
        raise MlirfuseError(
            f"{self.source}: the program returned {results.size} results; its manifest says"
            f" {len(outputs)}"
        )

    def _result(self, results: Any, index: int, exchange: Any, spec: TensorSpec) -> Any:
        value = results.get_variant(index)
        if isinstance(value, int | float):
            return value
        return exchange.receive(results.get_as_object(index, self._view), spec)


_PARAMETER = re.compile(r"%\w+: (?P<type>tensor<(?:[^<>]|<[^>]*>)*>|[\w.!]+)")


_SIZES = re.compile(r"(?:(?:\d+|\?)x)*")


def _parameters(declaration: str) -> tuple[list[str], list[str]]:
    """Types of the arguments and results in a declaration that IREE's ABI left in a program.

    It reads `sync func @main(%input0: tensor<4xf32>, %input1: i32) -> (%output0: tensor<4xf32>)`.
    """
    inputs, _, outputs = declaration.partition(") -> (")
    return (
        [found["type"] for found in _PARAMETER.finditer(inputs)],
        [found["type"] for found in _PARAMETER.finditer(outputs)],
    )


def _scalars(declaration: str, count: int) -> list[str | None]:
    """For each argument its type if it is a plain number, None if it is a tensor."""
    types = _parameters(declaration)[0]
    if len(types) != count:
        return [None] * count
    return [None if text.startswith(("tensor", "!")) else text for text in types]


def _spec(text: str, name: str) -> TensorSpec:
    inner = text.removeprefix("tensor<").removesuffix(">") if text.startswith("tensor") else text
    sizes = _SIZES.match(inner)
    assert sizes is not None
    shape = tuple(None if s == "?" else int(s) for s in sizes[0].split("x")[:-1])
    return TensorSpec(shape, inner[sizes.end() :], name)


def load(
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    guard: str | None = None,
    cuda_graph: bool = False,
    parameters: Archives | None = None,
) -> FusedModule:
    """Loads a program from a `.vmfb` file.

    Args:
      path: written by `FusedModule.save` or `mlirfuse-compile`; a program of `iree-compile` works
        too when its functions declare their types.
      function: which function to call; None for the one that the program was compiled for.
      device: URI of the device; None for the one of its target, or the CPU.
      threads: number of threads on the CPU, before this process used it; None for
        `MLIRFUSE_THREADS`, or for iree-runtime's choice.
      guard: what a call with other shapes or types does: `error`, or `off` to leave it to IREE's
        own checks; None for `off` where the program was compiled without the feature `guard`, else
        `error`. A file does not know its model, so it cannot be compiled again.
      cuda_graph: issue the commands of a call as one CUDA graph, for tensors of PyTorch on the GPU:
        recorded at the first call with each signature, later launched on PyTorch's current stream,
        where results are ready in its order and nobody waits. Takes `cuda-bindings`. A call that
        cannot be replayed runs as without; why is logged once.
      parameters: scope -> the archive that the program's parameters of that scope are in: `.irpa`,
        `.gguf` or `.safetensors`. It is read at the first call.

    Raises:
      UsageError: the file cannot be read, or has no such function; or `cuda_graph` and another
        device than CUDA's.
      MlirfuseError: it is no program.
    """
    check_policy(guard or "error")
    if guard not in (None, "error", "off"):
        raise UsageError(f"guard={guard} needs the model; a program from a file has none")
    path = Path(path)
    image = Image(path)
    manifest = manifests.read(path)
    image.has_manifest = manifest is not None
    if manifest is None or function not in (None, manifest.function):
        manifest = _declared(image, function, manifest)
    if device is not None:
        manifest = dataclasses.replace(manifest, device=device)
    if guard is None:
        guard = "off" if "guard" in manifest.report.options.get("disable_feature", ()) else "error"
    return FusedModule(
        image,
        manifest,
        threads=threads,
        guard=Guard(guard),
        cuda_graph=cuda_graph,
        parameters=parameters,
    )


def _declared(image: Image, function: str | None, manifest: Manifest | None) -> Manifest:
    """The manifest for a function that mlirfuse was not asked to compile, from its declaration.

    Args:
      image: the program.
      function: name of the function; None for `main` or the first.
      manifest: of another function of the program; None when the program has none.
    """
    import iree.runtime as rt

    from mlirfuse.runtime.devices import first_line

    try:
        module = rt.VmModule.wrap_buffer(rt.VmInstance(), image.data)
    except (ValueError, RuntimeError) as error:
        raise MlirfuseError(
            f"{image.path} is no program for iree-runtime: {first_line(error)}"
        ) from error
    names = [
        n for n in module.function_names if not n.startswith("__") and not n.endswith("$async")
    ]
    if function is None:
        function = "main" if "main" in names or not names else names[0]
    elif function not in names:
        raise UsageError(f"{image.path} has no function '{function}'{nearest(function, names)}")
    found = module.lookup_function(function)
    declaration = found.reflection.get("iree.abi.declaration") if found is not None else None
    if declaration is None:
        raise MlirfuseError(
            f"{image.path}: function '{function}' does not declare its types; compile it with"
            " mlirfuse-compile"
        )
    inputs, outputs = _parameters(declaration)
    return Manifest(
        device="local-task" if manifest is None else manifest.device,
        function=function,
        inputs=tuple(_spec(text, "") for text in inputs),
        outputs=tuple(_spec(text, "") for text in outputs),
        structure=None,
        source=image.path.name if manifest is None else manifest.source,
        report=Report(target="unknown", iree="unknown", options={})
        if manifest is None
        else manifest.report,
    )
