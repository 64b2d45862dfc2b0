"""`FusionPlan`: ops in a row that become one kernel, described, checked, compiled and run."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.core import Report, UsageError, nearest
from mlirfuse.final_kernels import FinalKernel
from mlirfuse.fusion_plan import compiled, ops, saved
from mlirfuse.fusion_plan.arguments import PlanArguments
from mlirfuse.fusion_plan.check import check
from mlirfuse.fusion_plan.codes import Check, Code, FusionPlanError, Refusal
from mlirfuse.fusion_plan.compiled import Compiled, Settings
from mlirfuse.fusion_plan.description import DIRECTIONS, Description
from mlirfuse.fusion_plan.ops import INPUT, OUTPUT, Derived, Op
from mlirfuse.fusion_plan.tensors import TensorSpec
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FusionOp:
    """An op of a plan.

    Attributes:
      plan: the plan.
      index: its place among the plan's ops.
      op: its parameters.
    """

    plan: FusionPlan
    index: int
    op: Op

    @property
    def tensors(self) -> Mapping[str, TensorSpec]:
        """Name -> tensor: `input`, `output`, the arguments, and further results.

        Raises:
          FusionPlanError: the plan's tensors do not fit its ops.
        """
        description = self.plan.description
        derived = self.plan.derived()
        given = derived[self.index - 1].output if self.index else description.input
        own = derived[self.index]
        return {
            INPUT: given,
            **own.arguments,
            OUTPUT: own.output,
            **{name: spec for name, spec in own.results.items() if name not in own.arguments},
        }


class FusionPlan:
    """Ops in the order of the data, of which only the first input is described.

    Calls of a compiled plan from several threads are safe.

    Attributes:
      target: the machine that the plan is compiled for.
      direction: axis of the fusion, `vertical`: from an op to the next one.
    """

    def __init__(
        self, input: TensorSpec, *, direction: str = "vertical", target: str | Target = "cpu"
    ) -> None:
        """Makes a plan without ops.

        Args:
          input: the first op's input.
          direction: axis of the fusion.
          target: `cpu`, `cuda:sm_90`, `rocm:gfx942`, `vulkan:ampere`, ...

        Raises:
          UsageError: an unknown direction or target.
        """
        if direction not in DIRECTIONS:
            raise UsageError(f"unknown direction '{direction}'{nearest(direction, DIRECTIONS)}")
        self.direction = direction
        self.target = targets.parse(target)
        self._description = Description(input)
        self._compiled: Compiled | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, description: Description, target: str | Target = "cpu") -> FusionPlan:
        """The plan of a description."""
        made = cls(description.input, target=target)
        made._description = description
        return made

    @property
    def description(self) -> Description:
        """The plan as a value, which can be compared and hashed."""
        return self._description

    @property
    def input(self) -> TensorSpec:
        """The first op's input."""
        return self._description.input

    @property
    def ops(self) -> tuple[FusionOp, ...]:
        """The ops in the order of the data."""
        return tuple(FusionOp(self, i, op) for i, op in enumerate(self._description.ops))

    def derived(self) -> list[Derived]:
        """The tensors of each op.

        Raises:
          FusionPlanError: an op does not take its input.
        """
        try:
            return self._description.derived()
        except Refusal as refusal:
            raise FusionPlanError(refusal.code, refusal.detail) from None

    @property
    def output(self) -> TensorSpec:
        """The last op's output.

        Raises:
          FusionPlanError: an op does not take its input.
        """
        derived = self.derived()
        return derived[-1].output if derived else self.input

    @property
    def results(self) -> Mapping[str, TensorSpec]:
        """Name -> further result, in order, after the output: statistics, gradients.

        Raises:
          FusionPlanError: an op does not take its input.
        """
        return {name: spec for d in self.derived() for name, spec in d.results.items()}

    # --- ops ------------------------------------------------------------------------------------

    def add(self, op: Op) -> FusionOp:
        """Adds an op; a plan that was compiled has to be compiled again."""
        with self._lock:
            self._description = self._description.with_ops(*self._description.ops, op)
            self._compiled = None
            return FusionOp(self, len(self._description.ops) - 1, op)

    def conv_forward(
        self,
        filters: int,
        kernel: int | tuple[int, ...] = 3,
        *,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        mode: str = "convolution",
        output_padding: int | tuple[int, ...] = 0,
    ) -> FusionOp:
        """Adds a convolution; see `ops.ConvForward`."""
        windows = (kernel, stride, padding, dilation)
        return self.add(ops.ConvForward(filters, *windows, groups, mode, output_padding))

    def bias(self) -> FusionOp:
        """Adds a bias for each channel."""
        return self.add(ops.Bias())

    def activation(self, mode: str) -> FusionOp:
        """Adds an activation: `relu`, `leaky_relu`, `tanh`, ...; see `ACTIVATIONS`."""
        return self.add(ops.ActivationForward(mode))

    def batch_norm_inference(self, mode: str = "spatial") -> FusionOp:
        """Adds a batch norm with given statistics, `spatial` or `per_activation`."""
        return self.add(ops.BatchNormInference(mode))

    def residual(self) -> FusionOp:
        """Adds the sum with a tensor of the same shape."""
        return self.add(ops.Residual())

    def matmul(self, n: int, *, transposed: bool = False) -> FusionOp:
        """Adds a matmul with weights of K x N, or of N x K where `transposed`."""
        return self.add(ops.Matmul(n, transposed))

    def norm(self, mode: str = "layer") -> FusionOp:
        """Adds a layer norm, or with `rms` an RMS norm, over the last dimension."""
        return self.add(ops.Norm(mode))

    def softmax(self) -> FusionOp:
        """Adds a softmax over the last dimension."""
        return self.add(ops.Softmax())

    def quantize(self) -> FusionOp:
        """Adds the quantization to i8, the last op of a plan."""
        return self.add(ops.Quantize())

    def pool(
        self,
        mode: str = "max",
        kernel: int | tuple[int, ...] = 2,
        *,
        stride: int | tuple[int, ...] = 2,
        padding: int | tuple[int, ...] = 0,
    ) -> FusionOp:
        """Adds a pooling, `max`, `average` or `average_inclusive`."""
        return self.add(ops.Pool(mode, kernel, stride, padding))

    def attention(self, keys: int | None = None) -> FusionOp:
        """Adds attention with this number of keys, or with that of the queries."""
        return self.add(ops.Attention(keys))

    def reduce(self, mode: str = "sum", axes: tuple[int, ...] = (-1,)) -> FusionOp:
        """Adds a reduction, `sum`, `mean`, `max` or `min`."""
        return self.add(ops.Reduce(mode, tuple(axes)))

    def batch_norm_forward_training(self, mode: str = "spatial") -> FusionOp:
        """Adds a batch norm with the statistics of the batch, which are results."""
        return self.add(ops.BatchNormForwardTraining(mode))

    def batch_norm_backward(self, mode: str = "spatial") -> FusionOp:
        """Adds the gradients of a batch norm; the input is the gradient of its output."""
        return self.add(ops.BatchNormBackward(mode))

    def activation_backward(self, mode: str) -> FusionOp:
        """Adds the gradient of an activation; the input is the gradient of its output."""
        return self.add(ops.ActivationBackward(mode))

    # --- answers --------------------------------------------------------------------------------

    def check(self) -> Check:
        """Whether the plan is one kernel, without a device and without a compile."""
        return check(self._description, self.target)

    @property
    def is_compiled(self) -> bool:
        """Whether the plan can run: it is compiled, and no op was added since."""
        return self._compiled is not None

    @property
    def kernel(self) -> FinalKernel:
        """The kernel.

        Raises:
          FusionPlanError: the plan is not compiled.
        """
        (found,) = self._program().module.kernels
        return found

    @property
    def report(self) -> Report:
        """The report of the compiled program, with the decisions of a profile.

        Raises:
          FusionPlanError: the plan is not compiled.
        """
        return self._program().module.report

    @property
    def strategy(self) -> str:
        """Name of the way in which the plan was compiled.

        Raises:
          FusionPlanError: the plan is not compiled.
        """
        return self._program().strategy

    def compile(
        self,
        *,
        find: bool = False,
        profile: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
    ) -> FusionPlan:
        """Compiles the plan into exactly one kernel, and returns the plan.

        Args:
          find: try all configurations on this machine's device, and store the fastest, which
            later compiles of this description take.
          profile: a file of `mlirfuse-tune`, whose settings for this plan's program, and for
            kernels of its problems, hold where the plan's strategy sets no others.
          timeout: seconds that each step of the compiler may take; None for no limit.

        Raises:
          FusionPlanError: the plan is not one kernel; it has the code of `check`.
          UsageError: the profile cannot be read, or is none.
        """
        named = None if profile is None else os.fspath(profile)
        with self._lock:
            answer = self.check()
            if not answer:
                raise FusionPlanError(answer.code, str(answer).partition(": ")[2])
            self._compiled = compiled.compiled(
                self._description, self.target, Settings(timeout, named), find=find
            )
        return self

    def to_mlir(self) -> str:
        """The program that `compile` makes one kernel of, as MLIR, which `mlirfuse-tune` takes.

        Raises:
          FusionPlanError: the plan is not compiled.
        """
        return compiled.text(self._description, self.target, self._program())

    def args(self) -> PlanArguments:
        """Arguments for calls, none of which is set.

        Raises:
          FusionPlanError: an op does not take its input.
        """
        return PlanArguments(self.derived(), self._description.ops)

    def execute(self, x: Any, out: Any = None, args: PlanArguments | None = None) -> Any:
        """Runs the kernel.

        Args:
          x: the input, an array of numpy, torch or JAX; tensors on a GPU are read on PyTorch's
            current stream.
          out: array of numpy or torch for the output; a tuple where the plan has further results.
          args: values of the arguments; None where the ops have none.

        Returns:
          The output, or a tuple of it and the further results.

        Raises:
          FusionPlanError: the plan is not compiled, or an argument is not set.
          UsageError: the arguments are those of other ops.
          CallError: an array is of another shape or type.
        """
        program = self._program()
        args = self.args() if args is None else args
        if args.ops != self._description.ops:
            raise UsageError(
                "the arguments are those of another plan, or from before an op was added"
            )
        values = args.flat(program.arguments, x)
        return program.module(x, *values, out=out)

    def _program(self) -> Compiled:
        found = self._compiled
        if found is None:
            message = "the plan is not compiled, or an op was added since; call compile()"
            raise FusionPlanError(Code.NOT_COMPILED, message)
        return found

    # --- files ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.vmfb` for `load`, which also runs with iree-runtime alone.

        Raises:
          FusionPlanError: the plan is not compiled.
          UsageError: the path cannot be written.
        """
        saved.save(Path(path), self._description, self._program())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FusionPlan:
        """Loads a compiled plan; it needs no compiler.

        Raises:
          UsageError: the file cannot be read, or holds no plan.
        """
        description, program = saved.load(Path(path))
        made = cls.of(description, program.module.report.target)
        made._compiled = program
        return made

    def __repr__(self) -> str:
        """The description and the target."""
        state = "compiled" if self.is_compiled else "not compiled"
        return f"<FusionPlan {self._description} on {self.target}, {state}>"
