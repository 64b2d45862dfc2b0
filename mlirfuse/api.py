"""The Python API: compile a model, fuse a module, list the candidates for fusion."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mlirfuse import targets
from mlirfuse.compilation import Options, open_model, resolved
from mlirfuse.core import Candidate, ImportFailedError, Report, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.options.typed import SwitchArguments
from mlirfuse.runtime.guards import Guard, check_policy
from mlirfuse.runtime.module import FusedModule, load
from mlirfuse.support.contained import LOG
from mlirfuse.targets.base import Target

if TYPE_CHECKING:
    from iree.compiler import ir

__all__ = ["candidates", "compile", "fuse", "list_passes", "load"]


def compile(
    model: Any,
    example_inputs: Any = None,
    *,
    target: str | Target = "cpu",
    options: Options = None,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    stock: bool = False,
    count_stock: bool = False,
    measure: bool = False,
    guard: str = "error",
    cache: bool = True,
    timeout: float | None = None,
    dump_ir_dir: str | os.PathLike[str] | None = None,
    cuda_graph: bool | None = None,
    **switches: Unpack[SwitchArguments],
) -> FusedModule:
    """Imports a model, fuses its operators and compiles it.

    Args:
      model: a `torch.nn.Module`, an exported program, a JAX function, MLIR, the path of a model
        file, or `package.module:function`; see `mlirfuse.frontends.import_model`.
      example_inputs: arguments of a module or function: a tuple, or a mapping of keywords. For an
        `.onnx` file, arguments whose sizes take the place of those that it leaves open.
      target: `cpu`, `cuda:sm_90`, `rocm:gfx942`, `vulkan:ampere`, ...
      options: the switches, instead of `switches`.
      dynamic_shapes: for PyTorch, as `torch.export.export` takes them.
      function: for MLIR with several functions, which one to call.
      attention: for PyTorch, the form of attention that is imported: `auto`, `whole`, `decomposed`.
      stock: compile without fusion of ours, to compare with.
      count_stock: fill in `report.dispatches["stock"]` too; it costs about a third of another
        code generation.
      measure: time each function with and without fusion on this machine's device, with random
        arguments, and keep the faster form; this passes the cache by.
      guard: policy for calls with arguments of other shapes, types or structure: `recompile` for
        them, `fallback` to the model itself, `error`, or `off` to leave it to IREE's own checks.
      cache: use the compile cache.
      timeout: seconds that each step of the compiler may take; None for no limit.
      dump_ir_dir: existing directory for the IR before and after each pass that changed something,
        as `NNN_PASS_before.mlir`; the passes run once more for it.
      cuda_graph: issue the commands of a call as one CUDA graph; see `mlirfuse.load`.
      **switches: fields of `FusionOptions`, e.g. `disable_pass=["softmax_fusion"]`.

    Raises:
      UsageError: the request is wrong: unknown target, pass or switch, missing file.
      ImportFailedError: the model is damaged, or holds an op that IREE does not take.
      CompileFailedError: the compiler refused, died or ran out of time.
      PassFailedError: a pass of the pipeline failed.
    """
    settled = resolved(options, switches)
    again = functools.partial(
        compile,
        model,
        target=target,
        options=settled,
        function=function,
        attention=attention,
        stock=stock,
        measure=measure,
        cache=cache,
        timeout=timeout,
        cuda_graph=cuda_graph,
    )
    guarded = _guard(guard, model, again, settled)
    with open_model(
        model,
        example_inputs,
        target=target,
        options=settled,
        dynamic_shapes=dynamic_shapes,
        function=function,
        attention=attention,
        timeout=timeout,
        stock=stock,
        count_stock=count_stock,
    ) as compilation:
        if dump_ir_dir is not None:
            compilation.dump(Path(dump_ir_dir))
        if measure:
            from mlirfuse.tuning import fused_vs_stock

            image, report, times = fused_vs_stock.build(compilation)
        elif cache:
            from mlirfuse.support.disk_cache import Cache

            (image, report), times = compilation.cached(Cache.open()), {}
        else:
            (image, report), times = compilation.build(), {}
        for note in report.notes:
            LOG.warning("%s", note)
        return compilation.module(
            image, report, measured=times, guard=guarded, cuda_graph=cuda_graph
        )


def _guard(
    policy: str, model: Any, again: Callable[..., FusedModule], options: FusionOptions
) -> Guard:
    """The guard of a model that is about to be compiled.

    Raises:
      UsageError: an unknown policy, one that needs a model that can be called, or one that the
        feature `guard` is off for.
    """
    check_policy(policy)
    if not options.feature("guard"):
        if policy in ("recompile", "fallback"):
            raise UsageError(f"guard={policy} needs the feature 'guard', which is off")
        return Guard("off")
    if policy in ("error", "off"):
        return Guard(policy)
    if policy == "recompile" and _has_open_sizes(model):
        return Guard(policy, None, again)
    if not callable(model):
        raise UsageError(
            f"guard={policy} takes a model that can be called for other arguments, a PyTorch module"
            f" or a function, not {type(model).__name__}"
        )
    return Guard(policy, model, again)


def _has_open_sizes(model: Any) -> bool:
    """Whether a model is the path of a file that example inputs give the sizes of."""
    return isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".onnx")


def fuse(
    module: ir.Module | str | bytes | os.PathLike[str],
    *,
    target: str | Target = "cpu",
    options: Options = None,
    **switches: Unpack[SwitchArguments],
) -> tuple[ir.Module, Report]:
    """Runs the passes on a module as it stands.

    Args:
      module: linalg on tensors, plain or after IREE's global optimization: a module, text,
        bytecode, or a path. It is not changed.
      target: the machine that the module will be compiled for.
      options: the switches, instead of `switches`.
      **switches: fields of `FusionOptions`.

    Returns:
      The module with its groups, and the report of the decisions.

    Raises:
      UsageError: an unknown target, pass or switch, or a missing file.
      ImportFailedError: the text is not valid MLIR.
      PassFailedError: a pass failed; the module is untouched.
    """
    from mlirfuse.pipelines import engine, unmatched
    from mlirfuse.tuning_profile import application

    machine = targets.parse(target)
    switched = resolved(options, switches)
    given = _parsed(module)
    applied = application.for_module(given, machine, switched)
    if applied is not None:
        machine, switched = applied.settled.target, applied.settled.options
        for note in applied.notes:
            LOG.warning("%s", note)
    fused, report = engine.run(given, target=machine, options=switched)
    report.profile = None if applied is None else applied.to_dict()
    with given.context:
        report.notes = unmatched.warnings(given, report, switched)
    for note in report.notes:
        LOG.warning("%s", note)
    return fused, report


def candidates(
    module: ir.Module | str | bytes | os.PathLike[str],
    *,
    target: str | Target = "cpu",
    options: Options = None,
    **switches: Unpack[SwitchArguments],
) -> list[Candidate]:
    """Every fusion that was considered, taken or not, by rank: the most profitable first.

    Arguments and errors are those of `fuse`. For a model that is to be imported the report of
    `mlirfuse.compile` has them.
    """
    from mlirfuse.explain.ranking import ranked

    return ranked(fuse(module, target=target, options=options, **switches)[1])


def list_passes() -> list[dict[str, Any]]:
    """Name, aliases, summary, numerics, targets and options of every pass."""
    from mlirfuse.plugins import registry

    return [entry.to_dict() for entry in registry.passes().values()]


def _parsed(module: ir.Module | str | bytes | os.PathLike[str]) -> ir.Module:
    from iree.compiler import ir

    if isinstance(module, ir.Module):
        return module
    if not isinstance(module, str | bytes | os.PathLike):
        raise UsageError(
            f"takes MLIR: a module, text, bytecode or a path, not {type(module).__name__}; for a"
            " model call mlirfuse.compile, and mlirfuse.explain.candidates_text with its report"
        )
    if isinstance(module, str) and ("\n" in module or "{" in module):
        module = module.encode()
    name = "<text>"
    if isinstance(module, str | os.PathLike):
        name = os.fspath(module)
        try:
            module = Path(module).read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
    try:
        with ir.Context():
            return ir.Module.parse(module)
    except ir.MLIRError as error:
        found = error.error_diagnostics[0] if error.error_diagnostics else None
        where = re.search(r":\d+:\d+", str(found.location)) if found else None
        message = found.message.splitlines()[0] if found else "not valid MLIR"
        raise ImportFailedError(f"{name}{where[0] if where else ''}: {message}") from error
