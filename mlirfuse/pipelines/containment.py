"""Runs the engine until it works: what raised or left invalid IR is left out of the next run.

The engine works on a clone, so a pass that failed half-way leaves nothing behind. Each run leaves
out at least one more pass of one function; at the end the module stays as it is.
"""

from __future__ import annotations

from pathlib import Path

from iree.compiler import ir

from mlirfuse.core import MlirfuseError, MustFuseError, PassFailedError, Report
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.pipelines.engine import Starting
from mlirfuse.pipelines.faults import ENGINE, REPEATED_LAYERS, Faults
from mlirfuse.pipelines.pass_run import Observer
from mlirfuse.structured.ir import ops
from mlirfuse.support.contained import trace
from mlirfuse.targets.base import Target


def run(
    module: ir.Module,
    *,
    target: Target,
    options: FusionOptions,
    faults: Faults | None,
    dump_dir: Path | None = None,
    observer: Observer | None = None,
    starting: Starting | None = None,
    checks_must_fuse: bool = True,
) -> tuple[ir.Module, Report]:
    """Runs the pipeline that the options name, without the parts that raise.

    Arguments and results are those of `engine.run`.

    Args:
      module: not changed.
      target: the machine that the module will be compiled for.
      options: every switch.
      faults: the parts that are left out; those that raise now are added. None: as `engine.run`,
        whatever raises is an error.
      dump_dir: directory for the IR around each pass, written by the run that works.
      observer: called around each rewrite of the run that works.
      starting: called with the name of each pass before it runs.
      checks_must_fuse: as of `engine.run`.

    Raises:
      UsageError: as `engine.run`.
      PassFailedError: a pass that is not ours failed.
      MustFuseError: ops that have to end in one group did not.
    """
    if faults is None:
        return engine.run(
            module,
            target=target,
            options=options,
            dump_dir=dump_dir,
            observer=observer,
            starting=starting,
            checks_must_fuse=checks_must_fuse,
        )
    done = None
    while done is None and ENGINE not in faults.parts:
        try:
            done = engine.run(
                module,
                target=target,
                options=options,
                faults=faults,
                starting=starting,
                checks_must_fuse=checks_must_fuse,
            )
        except MustFuseError as error:
            if not faults.passes:
                raise
            (name, function), message = next(iter(faults.passes.items()))
            raise MustFuseError(
                f"{error}; pass '{name}' is left out of @{function}: {message}"
            ) from error
        except PassFailedError as error:
            _leave_out(module, error, faults)
        except (MlirfuseError, OSError):
            raise
        except Exception as error:
            faults.leave_part_out(ENGINE, error)
    if done is None:
        return engine.untouched(module, target, options)
    if dump_dir is None and observer is None:
        return done
    return engine.run(
        module,
        target=target,
        options=options,
        faults=faults,
        dump_dir=dump_dir,
        observer=observer,
        checks_must_fuse=checks_must_fuse,
    )


def _leave_out(module: ir.Module, error: PassFailedError, faults: Faults) -> None:
    """Leaves out the pass that failed.

    Raises:
      PassFailedError: it is not ours.
    """
    name = error.pass_name
    if name and name not in PASSES:
        raise error
    if name:
        functions = [error.function] if error.function else map(ops.symbol_name, _all(module))
        if faults.leave_out(name, functions, str(error)):
            trace(error)
            return
    # Where no pass is named, the result is invalid, and after no single pass it is.
    part = ENGINE if name or REPEATED_LAYERS in faults.parts else REPEATED_LAYERS
    faults.leave_part_out(part, error)


def _all(module: ir.Module) -> list[ir.Operation]:
    return list(ops.functions(module))
