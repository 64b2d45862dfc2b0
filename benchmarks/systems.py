"""The systems of a comparison: a model compiled by mlirfuse, IREE and PyTorch, ready to be called.

ours           mlirfuse.compile
stock          IREE with its default flags, the baseline
stock_best     IREE with data tiling, the best of its flags on the CPU
eager          PyTorch
torch_compile  torch.compile with its defaults
no_siblings    ours with --horizontal=off; for models whose siblings are fused
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
class Comparison:
    """The systems of one model.

    Attributes:
      calls: name of the system -> a call with the example inputs.
      dispatches: dispatches of a call: `stock` and `fused`.
      rewrites: pass -> count of its rewrites.
    """

    calls: dict[str, Call]
    dispatches: dict[str, int | None]
    rewrites: dict[str, int]

    def errors(self, module: torch.nn.Module, inputs: Inputs) -> dict[str, float]:
        """Maximum absolute error of each system against float64, over the largest magnitude."""
        import torch

        reference, wide = in_precision(module, inputs, torch.float64)
        with torch.inference_mode():
            expected = reference(*wide)
            scale = expected.abs().max()
            return {
                name: float((torch.as_tensor(call()) - expected).abs().max() / scale)
                for name, call in self.calls.items()
            }


def prepare(module: torch.nn.Module, inputs: Inputs, *, target: str = "cpu") -> Comparison:
    """Compiles a model for all systems; peers that fail are left out and logged.

    Args:
      module: a module in evaluation mode that returns one tensor.
      inputs: its example inputs.
      target: value of `--target`.

    Raises:
      MlirfuseError: `ours` or `stock` fails to compile.
    """
    parsed = targets.parse(target)
    ours = mlirfuse.compile(module, inputs, target=parsed, cache=False)
    stock = mlirfuse.compile(module, inputs, target=parsed, stock=True, cache=False)
    calls: dict[str, Call] = {
        "ours": functools.partial(ours, *inputs),
        "stock": functools.partial(stock, *inputs),
    }
    peers = dict(_PEERS)
    if any(d.taken and d.kind is Kind.SIBLING for d in ours.report.decisions):
        peers["no_siblings"] = _no_siblings
    for name, make in peers.items():
        try:
            calls[name] = functools.partial(make(module, inputs, parsed), *inputs)
            calls[name]()
        except Exception as error:  # Peers fail with errors of any type.
            _log.warning("left out %s: %s", name, (str(error).splitlines() or [repr(error)])[0])
            calls.pop(name, None)
    return Comparison(
        calls=calls,
        dispatches={
            "stock": stock.report.dispatches["stock"],
            "fused": ours.report.dispatches["fused"],
        },
        rewrites=ours.report.counts(),
    )


def with_data_tiling(target: Target) -> Target:
    """The target with the best flags of stock IREE."""
    return dataclasses.replace(target, flags=(*target.flags, BEST_STOCK_FLAG))


def _stock_best(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    tiled = with_data_tiling(target)
    return mlirfuse.compile(module, inputs, target=tiled, stock=True, cache=False)


def _no_siblings(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    return mlirfuse.compile(module, inputs, target=target, horizontal=False, cache=False)


def _eager(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    import torch

    return cast("Call", torch.inference_mode()(module))


def _torch_compile(module: torch.nn.Module, inputs: Inputs, target: Target) -> Call:
    import torch

    return cast("Call", torch.inference_mode()(torch.compile(module)))


_PEERS: dict[str, Callable[[torch.nn.Module, Inputs, Target], Call]] = {
    "stock_best": _stock_best,
    "eager": _eager,
    "torch_compile": _torch_compile,
}
