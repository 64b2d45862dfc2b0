"""Rewrites of Python's syntax trees for `torch_if_statements`: from one branch to both."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

HELPERS = "_mlirfuse_conditions"
"""The name of `torch_conditions` in rewritten code."""

_NAMES_OF_LOGS = frozenset({"warn", "warning", "warning_once", "warning_advice", "info", "debug"})

_NAMES_OF_CHANGES = frozenset(
    {"append", "clear", "extend", "insert", "pop", "setdefault", "update"}
)
"""Methods of containers that change them; those of tensors end in an underscore."""


def helpers() -> ast.stmt:
    """The statement that gives rewritten code its functions."""
    return ast.parse(f"from mlirfuse.frontends import torch_conditions as {HELPERS}").body[0]


class Rewriter:
    """Rewrites statements and expressions whose conditions are at some lines.

    Attributes:
      count: how many it rewrote.
    """

    def __init__(self, lines: frozenset[int]) -> None:
        self._lines = lines
        self.count = 0

    def block(self, statements: Sequence[ast.stmt], *, ends: bool) -> list[ast.stmt]:
        """A block with its statements in their other form.

        Args:
          statements: the block.
          ends: whether the function ends with it.
        """
        made: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            rest = list(statements[index + 1 :])
            if isinstance(statement, ast.Assert) and self._asks(statement.test):
                self.count += 1  # a program does not raise
                continue
            if isinstance(statement, ast.If) and self._asks(statement.test):
                before = self.count
                body = self.block(statement.body, ends=False)
                if ends and not statement.orelse and isinstance(body[-1], ast.Return):
                    other = self.block(rest, ends=True)
                    form = _returning(statement.test, body, other)
                    if form is not None:
                        self.count += 1
                        return [*made, *form]
                    self.count = before
                    body = self.block(statement.body, ends=False)
                form = _conditional(statement.test, body, self.block(statement.orelse, ends=False))
                if form is not None:
                    self.count += 1
                    made += form
                    continue
                self.count = before
            made.append(self._inner(statement))
        return made or [ast.Pass()]

    def _inner(self, statement: ast.stmt) -> ast.stmt:
        """A statement with those inside of it, and its expressions, in their other form."""
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            return statement
        changed = copy.copy(statement)
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(changed, field, self.block(value, ends=False))
            elif isinstance(value, ast.expr):
                choices = _Choices(self._asks)
                setattr(changed, field, choices.visit(copy.deepcopy(value)))
                self.count += choices.count
        return changed

    def _asks(self, test: ast.expr) -> bool:
        return any(test.lineno <= line <= (test.end_lineno or 0) for line in self._lines)


class _Choices(ast.NodeTransformer):
    """Rewrites expressions `a if condition else b`."""

    def __init__(self, asks: Callable[[ast.expr], bool]) -> None:
        self._asks = asks
        self.count = 0

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        asks = self._asks(node.test)
        if not asks or not all(map(_is_pure, (node.test, node.body, node.orelse))):
            self.generic_visit(node)
            return node
        self.count += 1
        return _call("chosen", condition(node.test), _later(node.body), _later(node.orelse))


def condition(test: ast.expr) -> ast.expr:
    """A condition as a tensor, where it is one: without `not`, `and`, `or`, `bool` and `item`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _call("negated", condition(test.operand))
    if isinstance(test, ast.BoolOp):
        name = "both" if isinstance(test.op, ast.And) else "either"
        made = condition(test.values[-1])
        for value in reversed(test.values[:-1]):
            made = _call(name, condition(value), _later(made))
        return made
    if isinstance(test, ast.Compare):
        operands = [_call("number", held) if (held := _held(e)) else e for e in test.comparators]
        left = _held(test.left)
        made = ast.Compare(_call("number", left) if left else test.left, test.ops, operands)
        return ast.copy_location(made, test)
    is_call = isinstance(test, ast.Call) and isinstance(test.func, ast.Name)
    if is_call and test.func.id == "bool" and len(test.args) == 1:  # type: ignore[attr-defined]
        return condition(test.args[0])  # type: ignore[attr-defined]
    return _held(test) or test


def _held(expression: ast.expr) -> ast.expr | None:
    """The tensor whose value `tensor.item()` is; None for another expression."""
    if not isinstance(expression, ast.Call) or expression.args or expression.keywords:
        return None
    function = expression.func
    if not isinstance(function, ast.Attribute) or function.attr != "item":
        return None
    return function.value


def _conditional(
    test: ast.expr, then: list[ast.stmt], instead: list[ast.stmt]
) -> list[ast.stmt] | None:
    """The other form of an `if` statement; None where it does more than to bind variables."""
    if not _is_pure(test):
        return None
    if _raises(then) or _raises(instead):
        return _asked(test, instead if _raises(then) else then, then, instead)
    both = _without_logs(then), _without_logs(instead)
    if not all(map(_binds, (statement for branch in both for statement in branch))):
        return None
    return _asked(test, _joined(test, *both), then, instead)


def _returning(
    test: ast.expr, then: list[ast.stmt], instead: list[ast.stmt]
) -> list[ast.stmt] | None:
    """The other form of `if test: ...; return a` before `...; return b`; None as above."""
    if not _is_pure(test):
        return None
    if _raises(instead):
        return _asked(test, then, then, instead)
    last = then[-1], instead[-1]
    if not all(isinstance(statement, ast.Return) for statement in last):
        return None
    branches = []
    for block in (then, instead):
        value = block[-1].value or ast.Constant(None)  # type: ignore[attr-defined]
        assigned = ast.Assign([ast.Name(_result(test), ast.Store())], value)
        branches.append([*_without_logs(block[:-1]), ast.copy_location(assigned, block[-1])])
    if not all(map(_binds, (statement for branch in branches for statement in branch))):
        return None
    returned = ast.Return(ast.Name(_result(test), ast.Load()))
    joined = _joined(test, branches[0], branches[1], [_result(test)])
    return _asked(test, [*joined, returned], then, instead)


def _asked(
    test: ast.expr, both: list[ast.stmt], then: list[ast.stmt], instead: list[ast.stmt]
) -> list[ast.stmt]:
    """`if` the condition is open: `both`; else the branch that it chooses."""
    name = _condition_name(test)
    bound = ast.NamedExpr(ast.Name(name, ast.Store()), condition(test))
    plain = ast.If(ast.Name(name, ast.Load()), then or [ast.Pass()], instead)
    made = ast.If(_call("is_open", bound), both or [ast.Pass()], [plain])
    return [ast.copy_location(made, test)]


def _joined(
    test: ast.expr,
    then: list[ast.stmt],
    instead: list[ast.stmt],
    wanted: Sequence[str] | None = None,
) -> list[ast.stmt]:
    """Both branches, one after the other, and the choice of the values of their variables.

    Args:
      test: the condition.
      then: the branch where it holds.
      instead: the other one.
      wanted: the variables that are read later; None for all that a branch binds.
    """
    names = sorted({*_bound(then), *_bound(instead)})
    chosen = names if wanted is None else wanted
    if not names:
        return []
    own = f"_{test.lineno}_{test.col_offset}"

    def held(variables: Sequence[str]) -> str:
        return f"{HELPERS}.held(locals(), {list(variables)!r})"

    def targets(variables: Sequence[str]) -> str:
        return f"{', '.join(variables)},"

    def parsed(text: str) -> list[ast.stmt]:
        made = ast.parse(text).body
        for node in (part for statement in made for part in ast.walk(statement)):
            if hasattr(node, "lineno"):
                ast.copy_location(node, test)
        return made

    values = f"_mlirfuse_then{own}, {held(chosen)}, {list(chosen)!r}"
    return [
        *parsed(f"_mlirfuse_before{own} = {held(names)}"),
        *copy.deepcopy(then),
        *parsed(f"_mlirfuse_then{own} = {held(chosen)}"),
        *parsed(f"{targets(names)} = _mlirfuse_before{own}"),
        *copy.deepcopy(instead),
        *parsed(f"{targets(chosen)} = {HELPERS}.joined({_condition_name(test)}, {values})"),
    ]


def _condition_name(test: ast.expr) -> str:
    return f"_mlirfuse_condition_{test.lineno}_{test.col_offset}"


def _result(test: ast.expr) -> str:
    return f"_mlirfuse_result_{test.lineno}_{test.col_offset}"


def _raises(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Raise)


def _without_logs(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A block without constants and calls of loggers: no branch is taken for sure."""
    return [s for s in block if not (isinstance(s, ast.Expr) and _is_log(s.value))]


def _is_log(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return True
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _NAMES_OF_LOGS


def _binds(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but bind local variables to values of expressions."""
    if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Assign):
        return all(map(_is_name, statement.targets)) and _is_pure(statement.value)
    if isinstance(statement, ast.AnnAssign):
        is_bound = statement.value is not None and _is_pure(statement.value)
        return _is_name(statement.target) and is_bound
    if isinstance(statement, ast.If):
        return _is_pure(statement.test) and all(map(_binds, (*statement.body, *statement.orelse)))
    return False


def _is_name(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_name, target.elts))
    return isinstance(target, ast.Name)


def _bound(block: Sequence[ast.stmt]) -> set[str]:
    """The variables that a block binds, but for those of rewritten statements."""
    stored = (
        node.id
        for statement in block
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return {name for name in stored if not name.startswith("_mlirfuse_") or "_result_" in name}


def _is_pure(expression: ast.expr) -> bool:
    """Whether no part of an expression changes a value, as far as its form shows."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.NamedExpr) and not node.target.id.startswith("_mlirfuse_"):
            return False
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name.endswith("_") and not name.endswith("__"):
                return False
            if name in _NAMES_OF_CHANGES:
                return False
            if any(keyword.arg == "out" for keyword in node.keywords):
                return False
    return True


def _later(expression: ast.expr) -> ast.expr:
    """A function without arguments that computes an expression."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, expression), expression)


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    function = ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load())
    return ast.copy_location(ast.Call(function, list(arguments), []), arguments[0])
