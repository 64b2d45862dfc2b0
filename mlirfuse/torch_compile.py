"""`torch.compile(model, backend="mlirfuse")`: compiles graphs of Dynamo.

Dynamo finds the function by the entry point `mlirfuse` of the group `torch_dynamo_backends`, so
users need not import mlirfuse. PyTorch runs the ops and graphs that cannot be compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import ImportFailedError, MlirfuseError, UsageError
from mlirfuse.frontends.lowering import one_line
from mlirfuse.support.contained import described, trace
from mlirfuse.targets.cuda import RATES
from mlirfuse.targets.present import newest_up_to
from mlirfuse.torch_backend import files, graph_breaks, left_out, packed_weights, reports
from mlirfuse.torch_backend.graph_compiler import (
    Compiled,
    CompiledGraph,
    GraphCompiler,
)
from mlirfuse.torch_backend.options import SOURCE, BackendOptions
from mlirfuse.torch_backend.program import LOG, Machine, Program
from mlirfuse.torch_backend.reports import ProgramReport, TorchReport

if TYPE_CHECKING:
    import torch

    from mlirfuse.runtime.module import FusedModule

MODE = "reduce-overhead"
"""The supported mode of torch.compile."""

_warned: set[str] = set()


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Compiled:
    """Compiles a graph of Dynamo.

    Args:
      graph: functions of PyTorch on tensors; parameters are among its arguments.
      example_inputs: its arguments, with symbolic integers for dynamic sizes.
      options: see `BackendOptions`.
      mode: `reduce-overhead`, which is the option `cuda_graph`.

    Raises:
      UsageError: the options are wrong.
      MlirfuseError: the graph cannot be compiled, and `fallback` is off.
    """
    if mode not in (None, MODE):
        raise UsageError(
            f"mode='{mode}' belongs to another backend; mode='{MODE}' or options={{...}} would be"
            " accepted"
        )
    read = BackendOptions.read({"cuda_graph": mode == MODE or None, **(options or {})})
    job = _Job(graph, example_inputs, read)
    try:
        compiled = job.compile()
    except UsageError:
        raise
    except MlirfuseError as error:
        if not read.fallback:
            raise
        job.record(error)
        forward: Compiled = graph.forward
        return forward
    job.record()
    return compiled


class _Job:
    """The compilation of one graph of Dynamo, and what is said about it."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        options: BackendOptions,
    ) -> None:
        self._graph = graph
        self._inputs = example_inputs
        self._options = options
        self._start = time.perf_counter()
        self._name = _name()
        self._machine: Machine | None = None
        self._done: CompiledGraph | None = None
        root = files.debug_root(options)
        self._debug = files.folder_of(root, self._name) if root is not None else None
        self._texts: dict[str, str] = {}
        if self._debug is not None:
            self._texts["dynamo_graph.py"] = _readable(graph)

    def compile(self) -> Compiled:
        """Compiles the graph.

        Raises:
          MlirfuseError: nothing of it can be compiled.
        """
        import torch
        from torch._dynamo.exc import ShortenTraceback, TorchDynamoException
        from torch._functorch.aot_autograd import aot_module_simplified

        from mlirfuse.frontends.torch_decompositions import decomposed_attention

        tensors = [value for value in self._inputs if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise ImportFailedError(
                f"{SOURCE}: it needs gradients, and only inference is compiled; call the model"
                " under torch.no_grad() or torch.inference_mode()"
            )
        self._machine = _machine(tensors, self._options.target)
        try:
            with decomposed_attention():
                compiled: Compiled = aot_module_simplified(
                    self._graph,
                    self._inputs,
                    fw_compiler=self._compile_aten,
                    inference_compiler=self._compile_aten,
                    decompositions=_decompositions(),
                )
        except (MlirfuseError, TorchDynamoException, ShortenTraceback):
            raise
        except Exception as error:
            raise ImportFailedError(
                f"{SOURCE}: PyTorch cannot trace it: {type(error).__name__}: {one_line(error)}"
            ) from error
        return compiled

    def _compile_aten(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        """Compiles the graph that AOTAutograd makes of the one of Dynamo."""
        assert self._machine is not None
        if self._debug is not None:
            self._texts["aten_graph.py"] = _readable(module)
        frozen = self._constants(inputs)
        keeps = self._debug is not None or self._options.report is not None
        compiler = GraphCompiler(module, frozen, self._options, self._machine, keeps_texts=keeps)
        self._done = compiler.compile()
        return self._done.call

    def _constants(self, inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
        """The parameters and buffers whose values the program has, or is given when it changes."""
        assert self._machine is not None
        if self._options.freeze:
            return _frozen(self._inputs, inputs)
        on_cpu = self._machine.device.type == "cpu" and self._machine.target.name == "cpu"
        if not self._options.pack_weights or not on_cpu:
            return {}
        return {i: t for i, t in _frozen(self._inputs, inputs).items() if packed_weights.takes(t)}

    def record(self, error: MlirfuseError | None = None) -> None:
        """Logs, remembers and writes what became of the graph.

        Args:
          error: why PyTorch runs the whole graph; None where it does not.
        """
        report = self._report(error)
        _warn(report)
        if self._options.report is not None:
            folder = files.folder_of(Path(self._options.report), self._name)
            report = dataclasses.replace(report, folders=(folder,))
            with self._contained(folder):
                files.write_reports(folder, report, self._program_texts())
        if self._debug is not None:
            report = dataclasses.replace(report, folders=(*report.folders, self._debug))
            with self._contained(self._debug):
                self._write_debug(self._debug, report)
        if self._done is not None:
            for done in self._done.programs.values():
                done.texts = {}
        reports.remember(report)
        LOG.info("%s", report)
        for folder in report.folders:
            LOG.debug("%s: written to %s", report.name, folder)
        for op in report.left:
            LOG.debug("%s: PyTorch runs %s: %s", report.name, op.node, op)
        for program in report.programs:
            LOG.debug("%s, %s: %s", report.name, program.name, program)

    @contextlib.contextmanager
    def _contained(self, folder: Path) -> Iterator[None]:
        """A block that writes files: where it fails, the model runs all the same."""
        try:
            yield
        except Exception as error:
            if not self._options.switches.feature("fallback"):
                raise
            trace(error)
            LOG.warning("%s: files in %s are left out: %s", self._name, folder, described(error))

    def _report(self, error: MlirfuseError | None) -> TorchReport:
        done = self._done if error is None else None
        programs = done.programs.items() if done is not None else ()
        left = done.left if done is not None else getattr(error, "left", ())
        calls = ("call_function", "call_method", "call_module")
        return TorchReport(
            name=self._name,
            target=str(self._machine.target) if self._machine is not None and done else "",
            ops=done.ops if done else sum(n.op in calls for n in self._graph.graph.nodes),
            programs=tuple(
                ProgramReport(
                    name=name,
                    ops=done.counts[name] if done is not None else 0,
                    report=program.fused.report,
                    cached=program.cached,
                    seconds=program.seconds,
                    _program=_weak(program),
                )
                for name, program in programs
            ),
            left=tuple(left),
            reason="" if error is None else str(error).removeprefix(f"{SOURCE}: "),
            seconds=time.perf_counter() - self._start,
            graph_break=graph_breaks.of_graph(self._graph),
        )

    def _program_texts(self) -> dict[str, files.Texts]:
        """Name of a program -> its IR, where it was kept."""
        done = {} if self._done is None else self._done.programs
        return {name: program.texts for name, program in done.items()}

    def _write_debug(self, folder: Path, report: TorchReport) -> None:
        files.write_reports(folder, report, self._program_texts())
        files.write_texts(folder, self._texts)
        if self._done is None:
            return
        files.write_texts(folder, self._done.texts)
        for name, program in self._done.programs.items():
            files.write_texts(files.program_folder(folder, name, report), program.texts)


def _name() -> str:
    """The name of the graph that is compiled: `graph_0_1` for the one that logs call `[0/1]`."""
    from torch._guards import CompileContext

    found = CompileContext.current_compile_id()
    return f"graph_{found}".replace("/", "_") if found is not None else "graph"


def _readable(module: torch.fx.GraphModule) -> str:
    return str(module.print_readable(print_output=False))


def _weak(program: Program) -> Callable[[], FusedModule | None]:
    """The program as long as PyTorch has it."""
    reference = weakref.ref(program)

    def get() -> FusedModule | None:
        found = reference()
        return found.fused if found is not None else None

    return get


def _warn(report: TorchReport) -> None:
    """Logs the ops that PyTorch runs since no program can, once for each list of them."""
    named = [op for op in report.left if not op.supported]
    if report.reason:
        text = f"{SOURCE}: {report.reason}; PyTorch runs this graph itself"
    elif named:
        ops = f"{len(named)} of {report.ops} ops"
        text = f"{SOURCE}: PyTorch runs {ops} itself: {left_out.summary(named)}"
    else:
        return
    if text not in _warned:
        _warned.add(text)
        LOG.warning("%s", text)


def _decompositions() -> dict[Any, Any]:
    """The decompositions of ops, without ops that draw random numbers: PyTorch runs those."""
    import torch

    from mlirfuse.frontends.torch_decompositions import decomposition_table

    return {
        op: function
        for op, function in decomposition_table(whole_attention=False).items()
        if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ())
    }


def _machine(tensors: Sequence[torch.Tensor], wanted: str | None) -> Machine:
    """The machine that holds these tensors.

    Args:
      tensors: the arguments of a graph.
      wanted: the target to compile for; None for that of the machine.

    Raises:
      ImportFailedError: mlirfuse has no target for their device.
    """
    import torch

    device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
    try:
        target, uri = _target_and_uri(device)
        own = targets.parse(target)
    except UsageError as error:
        raise ImportFailedError(f"{SOURCE}: {error}") from error
    return Machine(targets.parse(wanted) if wanted else own, uri, device)


def _target_and_uri(device: torch.device) -> tuple[str, str]:
    """The target for a device of PyTorch, and IREE's URI of it."""
    import torch

    if device.type == "cpu":
        return "cpu", "local-task"
    if device.type != "cuda":
        raise ImportFailedError(
            f"{SOURCE}: tensors are on '{device}'; on the CPU, CUDA or ROCm would be accepted"
        )
    properties = torch.cuda.get_device_properties(device)
    path = f"://{device.index}" if device.index else ""
    if torch.version.hip:
        return f"rocm:{properties.gcnArchName.partition(':')[0]}", f"hip{path}"
    capability = properties.major, properties.minor
    arch = newest_up_to(*capability, RATES) or f"sm_{properties.major}{properties.minor}"
    return f"cuda:{arch}", f"cuda{path}"


def _frozen(example_inputs: Sequence[Any], inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """Index -> value of each parameter and buffer that the graph does not write."""
    import torch
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if (
        metadata is None
        or len(example_inputs) != len(inputs)
        or len(metadata.input_info) != len(inputs)
    ):
        return {}
    return {
        index: tensor
        for index, tensor in enumerate(example_inputs)
        if (isinstance(tensor, torch.nn.Parameter) or hasattr(tensor, "_dynamo_static_input_type"))
        and not tensor.is_inference()
        and not metadata.input_info[index].mutates_data
    }
