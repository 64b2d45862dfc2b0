"""The sides of a comparison: a model as ours, IREE's and PyTorch's programs, ready to be called.

ours           mlirfuse.compile
stock          IREE with its default flags
stock_best     IREE with data tiling, which is the best that its flags can do on the CPU
eager          PyTorch
torch_compile  torch.compile with its defaults
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mlirfuse
from benchmarks.models import Inputs, in_precision
from mlirfuse import targets

if TYPE_CHECKING:
    import torch

BEST_STOCK_FLAG = "--iree-dispatch-creation-data-tiling"
"""Measured against `--iree-opt-level=O2`, O3, and O3 with data tiling on a BERT, a GPT and a Llama
block: O2 and O3 are slower there or do not compile."""

Call = Callable[[], Any]


@dataclasses.dataclass(slots=True)
class Contest:
    """One model's sides.

    Attributes:
      calls: name of the side -> a call with the example inputs.
      dispatches: of a call: `stock` and `fused`.
      rewrites: how often each of our passes rewrote.
    """

    calls: dict[str, Call]
    dispatches: dict[str, int | None]
    rewrites: dict[str, int]

    def errors(self, module: torch.nn.Module, inputs: Inputs) -> dict[str, float]:
        """Each side's largest absolute error over the largest magnitude, against float64."""
        import torch

        reference, wide = in_precision(module, inputs, torch.float64)
        with torch.inference_mode():
            expected = reference(*wide)
            scale = expected.abs().max()
            return {
                name: float((torch.as_tensor(call()) - expected).abs().max() / scale)
                for name, call in self.calls.items()
            }


def prepare(module: torch.nn.Module, inputs: Inputs, *, target: str = "cpu") -> Contest:
    """Compiles a model for all sides.

    Args:
      module: in evaluation mode; returns one tensor.
      inputs: its example inputs.
      target: as `--target` takes it.

    Raises:
      MlirfuseError: IREE refused the program.
    """
    import torch

    plain = targets.parse(target)
    tiled = dataclasses.replace(plain, flags=(*plain.flags, BEST_STOCK_FLAG))
    programs = {
        "ours": mlirfuse.compile(module, inputs, target=plain, cache=False),
        "stock": mlirfuse.compile(module, inputs, target=plain, stock=True, cache=False),
        "stock_best": mlirfuse.compile(module, inputs, target=tiled, stock=True, cache=False),
    }
    calls: dict[str, Call] = {
        name: functools.partial(program, *inputs) for name, program in programs.items()
    }
    for name, function in (("eager", module), ("torch_compile", torch.compile(module))):
        calls[name] = functools.partial(torch.inference_mode()(function), *inputs)
    return Contest(
        calls=calls,
        dispatches={
            "stock": programs["stock"].report.dispatches["stock"],
            "fused": programs["ours"].report.dispatches["fused"],
        },
        rewrites=programs["ours"].report.counts(),
    )
