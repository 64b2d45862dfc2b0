"""The sides of a comparison: a model as ours, IREE's and PyTorch's programs, ready to be called.

ours           mlirfuse.compile
stock          IREE with its default flags
stock_best     IREE with data tiling, which is the best that its flags can do on the CPU
eager          PyTorch
torch_compile  torch.compile with its defaults
no_siblings    ours with --horizontal=off; of models whose siblings are fused
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import mlirfuse
from benchmarks.models import Inputs, in_precision
from mlirfuse import targets
from mlirfuse.core import Kind
from mlirfuse.targets.base import Target

if TYPE_CHECKING:
    import torch

BEST_STOCK_FLAG = "--iree-dispatch-creation-data-tiling"
"""Measured against `--iree-opt-level=O2`, O3, and O3 with data tiling on a BERT, a GPT and a Llama
block: O2 and O3 are slower there or do not compile."""

Call = Callable[..., Any]

_log = logging.getLogger(__name__)


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
    """Compiles a model for all sides; leaves out, with a note, a peer that cannot take it.

    Args:
      module: in evaluation mode; returns one tensor.
      inputs: its example inputs.
      target: as `--target` takes it.

    Raises:
      MlirfuseError: IREE refused the program as ours, or with its default flags.
    """
    plain = targets.parse(target)
    ours = mlirfuse.compile(module, inputs, target=plain, cache=False)
    stock = mlirfuse.compile(module, inputs, target=plain, stock=True, cache=False)
    calls: dict[str, Call] = {
        "ours": functools.partial(ours, *inputs),
        "stock": functools.partial(stock, *inputs),
    }
    others = dict(_OPTIONAL)
    if any(d.taken and d.kind is Kind.SIBLING for d in ours.report.decisions):
        others["no_siblings"] = _no_siblings
    for name, make in others.items():
        try:
            calls[name] = functools.partial(make(module, inputs, plain), *inputs)
            calls[name]()
        except Exception as error:  # Whatever it is, another side's failure is not ours.
            _log.warning("left out %s: %s", name, (str(error).splitlines() or [repr(error)])[0])
            calls.pop(name, None)
    return Contest(
        calls=calls,
        dispatches={
            "stock": stock.report.dispatches["stock"],
            "fused": ours.report.dispatches["fused"],
        },
        rewrites=ours.report.counts(),
    )


def _stock_best(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    tiled = dataclasses.replace(target, flags=(*target.flags, BEST_STOCK_FLAG))
    return mlirfuse.compile(module, inputs, target=tiled, stock=True, cache=False)


def _no_siblings(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    return mlirfuse.compile(module, inputs, target=target, horizontal=False, cache=False)


def _eager(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    import torch

    return cast("Call", torch.inference_mode()(module))


def _torch_compile(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    import torch

    return cast("Call", torch.inference_mode()(torch.compile(module)))


_OPTIONAL: dict[str, Callable[[torch.nn.Module, Inputs, Target], Call]] = {
    "stock_best": _stock_best,
    "eager": _eager,
    "torch_compile": _torch_compile,
}
