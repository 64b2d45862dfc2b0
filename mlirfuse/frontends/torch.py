"""PyTorch: modules, functions, exported programs and `.pt2` files.

`torch.export` -> our decompositions -> IREE's FX importer -> linalg. Locations are PyTorch's stack
traces; parameters are resources that are never copied.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import logging
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mlirfuse import marks
from mlirfuse.core import ImportFailedError, MlirfuseError, UsageError, nearest
from mlirfuse.frontends import torch_batches
from mlirfuse.frontends.entry_point import name_specs
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.frontends.lowering import one_line
from mlirfuse.frontends.torch_export_forms import exported_forms
from mlirfuse.frontends.torch_if_statements import exported
from mlirfuse.frontends.torch_objects import Objects
from mlirfuse.frontends.torch_quiet import quiet
from mlirfuse.frontends.torch_traces import lost_arguments, traced

if TYPE_CHECKING:
    import torch

_log = logging.getLogger("mlirfuse")

ATTENTION = ("auto", "decomposed", "whole")
"""Values of `attention=`. `auto` is `decomposed`: the fusion passes recognize that form, and raise
it where the target gains from it. The whole op is 2.2x slower on the CPU (4x12x128x32 float32:
1.77 ms against 0.80 ms with IREE 3.13 on 2 cores), and IREE generates no code for it on Vulkan."""


def import_module(
    model: Any,
    example_inputs: Any,
    *,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a `torch.nn.Module`, or a function of tensors.

    Args:
      model: a module in evaluation mode, or a function.
      example_inputs: a tuple of positional arguments or a mapping of keyword arguments.
      dynamic_shapes: as `torch.export.export` takes them.
      function: name of the function in the result; `main` if None.
      attention: one of `ATTENTION`.
      timeout: seconds for the lowering; None for no limit.

    Raises:
      UsageError: no example inputs, or an unknown form of attention.
      ImportFailedError: PyTorch cannot export the model, or IREE has no lowering for an op.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    import torch

    if attention not in ATTENTION:
        raise UsageError(f"unknown attention form '{attention}'{nearest(attention, ATTENTION)}")
    if not isinstance(model, torch.nn.Module):
        model = as_module(model)
    source = getattr(model, "mlirfuse_name", type(model).__name__)
    from mlirfuse.frontends.torch_decompositions import decomposed_attention

    args, kwargs = _without_aliases(_example_arguments(example_inputs, source))
    objects = Objects(args, kwargs)
    opened = objects.opened(args, kwargs)
    marks.restart()
    common: dict[str, Any] = {"function": function, "attention": attention, "timeout": timeout}

    places: list[str] = []

    def exported_form(form: torch.nn.Module) -> _Exported:
        with quiet(), torch.no_grad(), exported_forms(), objects.handled(form):
            program = exported(
                lambda: torch.export.export(form, *opened, dynamic_shapes=dynamic_shapes), places
            )
        return _Exported.of(program, source, whole_attention=attention == "whole")

    def traced_form() -> _Exported:
        with quiet(), torch.no_grad(), decomposed_attention():
            form = traced(model, *opened)
        return exported_form(form)

    instead = traced_form if dynamic_shapes is None and not objects.among_arguments else None
    program = _in_some_form(lambda: exported_form(model), instead, source)
    for place in places:
        _log.info("%s: a tensor decides: both branches are computed, checks are left out", place)
    imported = _imported(program, source=source, **common)
    assert imported.flatten is not None
    assert imported.unflatten is not None
    imported.flatten, imported.unflatten = objects.wrap(imported.flatten, imported.unflatten)
    if dynamic_shapes is not None:
        again = functools.partial(import_module, model, **common)
        imported.at_batch = torch_batches.of_module(imported, args, kwargs, again)
    return imported


def import_program(
    program: torch.export.ExportedProgram,
    *,
    source: str = "ExportedProgram",
    function: str | None = None,
    attention: str = "auto",
    timeout: float | None = None,
    again: Callable[[], torch.export.ExportedProgram] | None = None,
) -> ImportedModel:
    """Imports a result of `torch.export.export`. Arguments and errors as for `import_module`.

    `again` loads the program once more for `ImportedModel.reference`; None to keep this one.
    """
    if attention not in ATTENTION:
        raise UsageError(f"unknown attention form '{attention}'{nearest(attention, ATTENTION)}")
    exported = _Exported.of(program, source, whole_attention=attention == "whole")
    return _imported(
        exported,
        source=source,
        function=function,
        attention=attention,
        timeout=timeout,
        again=again,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Exported:
    """A program of `torch.export`, and its decomposition."""

    original: torch.export.ExportedProgram
    decomposed: torch.export.ExportedProgram

    @classmethod
    def of(
        cls, program: torch.export.ExportedProgram, source: str, *, whole_attention: bool
    ) -> _Exported:
        return cls(program, _decomposed(program, source, whole_attention=whole_attention))


def _in_some_form(
    first: Callable[[], _Exported], second: Callable[[], _Exported] | None, source: str
) -> _Exported:
    """The result of the first export that succeeds.

    Raises:
      ImportFailedError: PyTorch cannot export the model; the error is that of the first form.
    """
    try:
        return first()
    except Exception as error:
        if second is not None and not _is_own(error):
            with contextlib.suppress(Exception):
                return second()
        if isinstance(error, MlirfuseError):
            said = str(error).removeprefix(f"{source}: ")
            raise ImportFailedError(f"{source}: {said}") from error
        raise ImportFailedError(
            f"{source}: torch.export cannot export it: {type(error).__name__}: {one_line(error)}"
        ) from error


def _is_own(error: Exception) -> bool:
    """Whether an error is ours alone, and none of PyTorch in our words."""
    cause = error.__cause__
    return isinstance(error, MlirfuseError) and (cause is None or isinstance(cause, MlirfuseError))


def _imported(
    exported: _Exported,
    *,
    source: str,
    function: str | None,
    attention: str,
    timeout: float | None,
    again: Callable[[], torch.export.ExportedProgram] | None = None,
) -> ImportedModel:
    from mlirfuse.frontends.torch_boundary import expose, typed
    from mlirfuse.frontends.torch_decompositions import zero_masked_rows
    from mlirfuse.frontends.torch_halves import expose_halves, joined
    from mlirfuse.frontends.torch_layout import of_model, permute_arguments, user_arguments
    from mlirfuse.frontends.torch_program import (
        calling_convention,
        dynamic_sizes,
        evaluator,
        has_f64_tensors,
        lower_fx,
        parameters,
        share_sizes,
        tensor_names,
    )

    function = function or "main"
    program, original = exported.decomposed, exported.original
    reference = evaluator(again or (lambda: original))
    _refuse_random(program, source)
    if attention == "whole":
        zero_masked_rows(program)
    convention, taken = calling_convention(program, source), parameters(program)
    own = user_arguments(program)
    boundary = expose(program)
    halves = expose_halves(program, source)
    orders = {} if boundary.updated else permute_arguments(program, own)
    share_sizes(program)
    imported = lower_fx(program, source=source, function=function, timeout=timeout)
    signature = program.graph_signature
    imported.inputs = tuple(
        dataclasses.replace(spec, name=boundary.names.get(spec.name, spec.name))
        for spec in typed(name_specs(imported.inputs, tensor_names(signature.input_specs)), program)
    )
    imported.outputs = typed(
        name_specs(imported.outputs, tensor_names(signature.output_specs)), program
    )
    imported.inputs = of_model(imported.inputs, signature.input_specs, orders)
    imported.outputs = of_model(imported.outputs, signature.output_specs, orders)
    imported.sizes = dynamic_sizes(program)
    imported.keeps_f64 |= has_f64_tensors(program.graph)
    imported.flatten, unflatten = boundary.wrap(*convention)
    imported.unflatten = joined(unflatten, halves)
    imported.parameters = () if boundary.updated else taken
    imported.reference = None if boundary.updated else reference
    return imported


def import_file(
    path: Path,
    *,
    function: str | None = None,
    attention: str = "auto",
    timeout: float | None = None,
) -> ImportedModel:
    """Imports a `.pt2` file. Arguments and errors as for `import_module`."""
    from mlirfuse.frontends.torch_archive import load_program

    return import_program(
        load_program(path),
        source=str(path),
        function=function,
        attention=attention,
        timeout=timeout,
        again=lambda: load_program(path),
    )


def as_module(function: Callable[..., Any]) -> torch.nn.Module:
    """A function of tensors as a module in evaluation mode, with the function's parameters."""
    import torch

    called = _in_stack_traces(function)

    class FunctionModule(torch.nn.Module):  # type: ignore[misc]
        mlirfuse_name = getattr(function, "__name__", "function")

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return called(*args, **kwargs)

    with contextlib.suppress(TypeError, ValueError):  # of a builtin
        signature = inspect.signature(function)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        FunctionModule.forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[own, *signature.parameters.values()]
        )
    return FunctionModule().eval()


def _in_stack_traces(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, by a name that PyTorch keeps in the stack traces of a program's nodes.

    It keeps lines of functions named `forward` alone.
    """
    if not isinstance(function, types.FunctionType):
        return function
    named = types.FunctionType(
        function.__code__.replace(co_name="forward"),
        function.__globals__,
        "forward",
        function.__defaults__,
        function.__closure__,
    )
    named.__kwdefaults__ = function.__kwdefaults__
    return named


_Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def _example_arguments(example_inputs: Any, source: str) -> _Arguments:
    import torch

    if example_inputs is None:
        raise UsageError(
            f"{source}: a PyTorch model needs example inputs: a tuple of arguments, or a mapping "
            "of keyword arguments"
        )
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        return tuple(example_inputs), {}
    raise UsageError(
        f"{source}: example inputs are of type {type(example_inputs).__name__}; a tuple of "
        "arguments or a mapping of keyword arguments would be accepted"
    )


def _without_aliases(arguments: _Arguments) -> _Arguments:
    """The arguments with a copy of each tensor that is passed again.

    The export merges arguments that are one tensor, and ignores the second one in every call.
    """
    import torch
    from torch.utils import _pytree as pytree

    seen: set[int] = set()

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        again = id(value) in seen
        seen.add(id(value))
        return value.clone() if again else value

    copies: _Arguments = pytree.tree_map(copied, arguments)
    return copies


def _decomposed(
    program: torch.export.ExportedProgram, source: str, *, whole_attention: bool
) -> torch.export.ExportedProgram:
    import torch

    from mlirfuse.frontends.torch_checks import drop_checks
    from mlirfuse.frontends.torch_decompositions import decomposition_table
    from mlirfuse.frontends.torch_decompositions.accumulation import grouped_instances

    try:
        if lost_arguments(program):
            raise ValueError("its exported program has arguments as constants, without values")
        with quiet(), torch.no_grad(), grouped_instances(program):
            program = program.run_decompositions(
                decomposition_table(whole_attention=whole_attention)
            )
            drop_checks(program)
            return program
    except MlirfuseError as error:
        raise ImportFailedError(f"{source}: {one_line(error)}") from error
    except Exception as error:
        raise ImportFailedError(
            f"{source}: PyTorch cannot decompose it: {type(error).__name__}: {one_line(error)}"
        ) from error


def _refuse_random(program: torch.export.ExportedProgram, source: str) -> None:
    """Refuses models that draw random numbers: a program is a function of its arguments."""
    import torch

    random = torch.Tag.nondeterministic_seeded
    attention = torch.ops.aten.scaled_dot_product_attention.default
    for node in program.graph.nodes:
        if node.target is attention and not (node.args[4:5] or (node.kwargs.get("dropout_p"),))[0]:
            continue
        if random in getattr(node.target, "tags", ()):
            raise ImportFailedError(
                f"{source}: '{node.target}' draws random numbers; call .eval() on the module, or "
                "pass the numbers in as an argument"
            )
