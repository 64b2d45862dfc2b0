"""`if` statements of models whose condition is the value of a tensor, in a form that is exported.

    if not torch.isfinite(h).all():
        h = h.clamp(-top, top)
  becomes
    if is_open(condition := negated(torch.isfinite(h).all())):
        before = (h,); h = h.clamp(-top, top); then = (h,); (h,) = before
        (h,) = joined(condition, then, (h,))            # torch.where

The exporter follows one branch, so it stops at such a statement. Here both branches are computed,
and the values of their variables chosen. A branch may bind local variables to values of
expressions. A branch that raises an error is left out, as all checks of values are: a program does
not raise. A statement that does more stays as it is.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gc
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import torch_branches
from mlirfuse.frontends.lowering import one_line

if TYPE_CHECKING:
    from torch.export import ExportedProgram

MAX_STATEMENTS = 32
"""Most statements of a model that are rewritten: the model is exported once more for each."""

_TORCH_PARTS = ("torch.nn.", "torch.functional", "torch.distributions.")
"""Modules of PyTorch with code of models; the others are the exporter's own."""


def exported(export: Callable[[], ExportedProgram], places: list[str]) -> ExportedProgram:
    """The result of an export; statements that stop it have another form while it runs.

    Args:
      export: the export.
      places: gets the file and line of each such statement.

    Raises:
      ImportFailedError: a statement cannot be rewritten; the message has its line.
      Exception: that of the export, for other reasons.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    rewritten: dict[types.CodeType, frozenset[int]] = {}
    for _ in range(MAX_STATEMENTS):
        with contextlib.ExitStack() as stack:
            made = {}
            for code, lines in rewritten.items():
                other = _other_form(code, lines)
                if other is not None:
                    made[other] = code
                    stack.enter_context(_exchanged(code, other))
            try:
                found = export()
                places += [f"{c.co_filename}:{n}" for c, lines in rewritten.items() for n in lines]
                return found
            except GuardOnDataDependentSymNode as error:
                place = _place(error)
                if place is None:
                    raise
                code, line = made.get(place[0], place[0]), place[1]
                lines = rewritten.get(code, frozenset()) | {line}
                if lines == rewritten.get(code) or _other_form(code, lines) is None:
                    raise _refused(code, line, error) from error
                rewritten[code] = lines
    return export()


def _refused(code: types.CodeType, line: int, error: BaseException) -> ImportFailedError:
    return ImportFailedError(
        f"{code.co_filename}:{line}: torch.export cannot export it: the program would depend on"
        " values of tensors; torch.where, torch.cond or an `if` that only binds variables would be"
        f" accepted ({type(error).__name__}: {one_line(error)})"
    )


def _place(error: BaseException) -> tuple[types.CodeType, int] | None:
    """The code of a model that asked for a value, and the line where it did."""
    found = None
    entry = error.__traceback__
    while entry is not None:
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        is_tool = module.partition(".")[0] in ("torch", "mlirfuse")
        if not is_tool or module.startswith(_TORCH_PARTS):
            found = entry.tb_frame.f_code, entry.tb_lineno
        entry = entry.tb_next
    return found


def _functions_of(code: types.CodeType) -> list[types.FunctionType]:
    return [
        function
        for function in gc.get_referrers(code)
        if isinstance(function, types.FunctionType) and function.__code__ is code
    ]


@contextlib.contextmanager
def _exchanged(code: types.CodeType, made: types.CodeType) -> Iterator[None]:
    """A block in which functions have other code."""
    functions = _functions_of(code)
    if not functions:
        gc.unfreeze()  # it finds no objects that `gc.freeze` has put aside
        functions = _functions_of(code)
    for function in functions:
        function.__code__ = made
    try:
        yield
    finally:
        for function in functions:
            function.__code__ = code


def _other_form(code: types.CodeType, lines: frozenset[int]) -> types.CodeType | None:
    """The code of a function with another form of the statements at some lines.

    None where one of them cannot have it.
    """
    try:
        text, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(text)))
    except (OSError, SyntaxError, TypeError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    rewriter = torch_branches.Rewriter(lines)
    body = rewriter.block(function.body, ends=True)
    if rewriter.count < len(lines):
        return None
    function = copy.copy(function)
    function.body, function.decorator_list = [torch_branches.helpers(), *body], []
    return _compiled(function, code)


def _compiled(function: ast.FunctionDef, code: types.CodeType) -> types.CodeType | None:
    """The code of a function in place of `code`, with the same variables of functions around it."""
    outer = ast.parse(f"def outer({', '.join(code.co_freevars)}): pass")
    definition = outer.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = [function]
    for node in ast.walk(outer):
        if isinstance(node, ast.stmt | ast.expr) and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = function.lineno
            node.col_offset = node.end_col_offset = 0
    ast.fix_missing_locations(outer)
    try:
        whole = compile(outer, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    for wanted in ("outer", function.name):
        parts = [part for part in whole.co_consts if isinstance(part, types.CodeType)]
        whole = next(part for part in parts if part.co_name == wanted)
    if whole.co_freevars != code.co_freevars:
        return None
    return whole.replace(co_name=code.co_name)
