"""Compiles a graph of aten ops: as one program, or as several with PyTorch between them.

1. Ops that no program computes, known by looking at them, are left to PyTorch.
2. The rest is compiled: the whole graph where nothing is left out, else its parts.
3. Where that fails, the ops that cause it are left out too, and the graph is cut again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.core import CompileFailedError, ImportFailedError, MlirfuseError
from mlirfuse.frontends.torch_nodes import is_number, tensors
from mlirfuse.torch_backend.culprits import culprits, in_failing_part
from mlirfuse.torch_backend.left_out import LeftOp, static_reason, summary
from mlirfuse.torch_backend.options import SOURCE, BackendOptions
from mlirfuse.torch_backend.partition import (
    MIN_COMPUTING_OPS,
    Part,
    copied,
    extract,
    is_op,
    split,
)
from mlirfuse.torch_backend.program import Machine, Program

if TYPE_CHECKING:
    import torch

Compiled = Callable[..., Any]

MAX_ROUNDS = 8
"""Cuts of a graph; a part that fails in the last one, or later, is left to PyTorch as a whole."""

WHOLE = "graph"
"""Name of the program of a graph that is not cut."""


class NothingToCompileError(ImportFailedError):
    """No part of a graph is worth a program.

    Attributes:
      left: the ops of the graph that no program computes.
    """

    def __init__(self, left: Sequence[LeftOp]) -> None:
        named = [op for op in left if not op.supported]
        few = f"no part that takes a tensor has {MIN_COMPUTING_OPS} ops"
        super().__init__(f"{SOURCE}: {summary(named) or few}")
        self.left = tuple(left)


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A compiled graph.

    Attributes:
      call: runs it, with AOTAutograd's boxed calls.
      programs: name -> its program; `graph` for the whole graph.
      ops: number of its ops.
      counts: number of ops in each program, by name.
      left: the ops that PyTorch runs.
      texts: file name -> text, for the debug folder.
    """

    call: Compiled
    programs: Mapping[str, Program]
    ops: int
    counts: Mapping[str, int]
    left: tuple[LeftOp, ...]
    texts: Mapping[str, str]


class GraphCompiler:
    """The compilation of one graph."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        frozen: Mapping[int, torch.Tensor],
        options: BackendOptions,
        machine: Machine,
        *,
        keeps_texts: bool,
    ) -> None:
        """A compilation.

        Args:
          module: aten ops without mutation; it stays as it is.
          frozen: index of an argument -> its value, for those that become constants.
          options: options of the backend.
          machine: the machine of the tensors.
          keeps_texts: whether the programs keep their IR.
        """
        self._module = module
        self._frozen = frozen
        self._options = options
        self._machine = machine
        self._keeps_texts = keeps_texts
        self._ops = [node for node in module.graph.nodes if is_op(node)]
        self._left: dict[str, LeftOp] = {}
        self._done: dict[frozenset[str], Program] = {}

    def compile(self) -> CompiledGraph:
        """Compiles the graph.

        Raises:
          NothingToCompileError: no part of it is worth a program.
          MlirfuseError: the failure is of no single op; or the option `fallback` is off.
        """
        placeholders = self._module.graph.find_nodes(op="placeholder")
        if not any(node.users and any(True for _ in tensors(node)) for node in placeholders):
            raise ImportFailedError(
                f"{SOURCE}: the program would have no tensor among its arguments"
            )
        for node in self._ops:
            if reason := static_reason(node, self._machine.target, self._machine.device):
                self._left[node.name] = LeftOp.of(node, reason)
        if self._left and not self._options.fallback:
            raise ImportFailedError(f"{SOURCE}: {summary(self._left.values())}")
        if not self._left:
            try:
                return self._whole()
            except (ImportFailedError, CompileFailedError) as error:
                if not self._options.fallback:
                    raise
                self._leave(error, self._ops)
        return self._in_parts()

    def _whole(self) -> CompiledGraph:
        program = self._program(copied(self._module), self._frozen)
        return self._made(program, {WHOLE: program}, {WHOLE: len(self._ops)}, {})

    def _in_parts(self) -> CompiledGraph:
        for node in filter(is_number, self._ops):
            reason = "makes a number of Python"
            self._left.setdefault(node.name, LeftOp.of(node, reason))
        round_index = 0
        while True:
            cut = split(self._module, self._left)
            if not cut.parts:
                self._leave_small(cut.too_small)
                raise NothingToCompileError(tuple(self._left.values()))
            text = cut.outer.print_readable(print_output=False)
            failed = False
            for part in cut.parts:
                if part.key not in self._done:
                    try:
                        self._done[part.key] = self._compiled(part)
                    except (ImportFailedError, CompileFailedError) as error:
                        self._leave(error, part.nodes, whole=round_index >= MAX_ROUNDS)
                        failed = True
            if not failed:
                break
            round_index += 1
        self._leave_small(cut.too_small)
        programs = {part.name: self._done[part.key] for part in cut.parts}
        counts = {part.name: sum(map(is_op, part.nodes)) for part in cut.parts}
        return self._made(_Outer(cut.outer, programs), programs, counts, {"parts.py": text})

    def _made(
        self,
        call: Compiled,
        programs: Mapping[str, Program],
        counts: Mapping[str, int],
        texts: Mapping[str, str],
    ) -> CompiledGraph:
        left = tuple(self._left.values())
        return CompiledGraph(call, programs, len(self._ops), counts, left, texts)

    def _leave(
        self, error: MlirfuseError, nodes: Sequence[torch.fx.Node], *, whole: bool = False
    ) -> None:
        """Leaves ops out for which some nodes cannot be compiled: at least one more."""
        ops = [node for node in nodes if is_op(node) and node.name not in self._left]
        found = [] if whole else culprits(error, ops, self._attempt)
        found = [op for op in found if op.node not in self._left]
        if not found:
            found = [LeftOp.of(node, in_failing_part(error)) for node in ops]
        self._left.update((op.node, op) for op in found)

    def _leave_small(self, nodes: Sequence[torch.fx.Node]) -> None:
        reason = f"is in a part of less than {MIN_COMPUTING_OPS} ops, or one that takes no tensor"
        for node in nodes:
            self._left.setdefault(node.name, LeftOp.of(node, reason, supported=True))

    def _attempt(self, nodes: Sequence[torch.fx.Node]) -> MlirfuseError | None:
        part = extract(self._module, nodes)
        try:
            self._compiled(part)
        except (ImportFailedError, CompileFailedError) as error:
            return error
        return None

    def _compiled(self, part: Part) -> Program:
        frozen = {
            index: self._frozen[argument]
            for index, argument in enumerate(part.arguments)
            if argument is not None and argument in self._frozen
        }
        return self._program(part.module, frozen)

    def _program(self, module: torch.fx.GraphModule, frozen: Mapping[int, torch.Tensor]) -> Program:
        return Program(module, frozen, self._options, self._machine, keeps_texts=self._keeps_texts)


class _Outer:
    """A graph that calls programs, and PyTorch between them."""

    _boxed_call = True

    def __init__(self, outer: torch.fx.GraphModule, programs: Mapping[str, Program]) -> None:
        for name, program in programs.items():
            delattr(outer, name)
            setattr(outer, name, _positional(program))
        self._outer = outer

    def __call__(self, arguments: list[Any]) -> list[Any]:
        given = list(arguments)
        arguments.clear()
        return list(self._outer.forward(*given))


def _positional(program: Program) -> Callable[..., list[Any]]:
    return lambda *arguments: program(list(arguments))
