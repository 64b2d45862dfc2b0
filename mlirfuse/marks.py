"""Marks from a model's source: `with mlirfuse.region("mlp", fuse="must"):` in PyTorch and JAX code.

A mark is a text, `mlirfuse.region:must:mlp`. It goes into the name scope of JAX's ops and the
metadata of PyTorch's nodes, and from there into the locations of the module, where
`structured.ir.marks` finds it. This module imports neither framework: a block marks the ops of the
frameworks that its program has imported.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mlirfuse.core import UsageError

PREFIX = "mlirfuse.region:"
"""The prefix of every mark."""

LAYER = "mlirfuse.layer:"
"""The prefix, in an op's location, of the name of the PyTorch module that the op comes from."""

FUSE = ("auto", "must", "never")
"""The requests of a mark. `auto` only names the ops."""

_NAME = re.compile(r"[A-Za-z_][\w.-]*")


_entered: dict[str, int] = {}
"""Number of entries of each `must` block since the last import of a model began."""


def restart() -> None:
    """Counts blocks from 0 again: a model that is imported twice has the same marks twice."""
    _entered.clear()


def mark(name: str, fuse: str = "auto", entry: int = 0) -> str:
    """The text of a mark.

    Args:
      name: name of the block.
      fuse: a word of `FUSE`.
      entry: index of the entry of the block: each layer of a model enters it once.

    Raises:
      UsageError: a name that a location cannot hold, or an unknown word.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"mlirfuse.region: '{name}' is not a name: letters, digits, '_', '.' and '-', the first"
            " a letter or '_'"
        )
    if fuse not in FUSE:
        raise UsageError(
            f"mlirfuse.region('{name}'): fuse='{fuse}' is unknown (known: {', '.join(FUSE)})"
        )
    return f"{PREFIX}{fuse}:{name}" + (f"#{entry}" if entry else "")


@contextlib.contextmanager
def region(name: str, fuse: str = "auto") -> Iterator[None]:
    """Marks the ops that a model's code computes inside the `with` block.

    The mark survives `torch.export`, its decompositions and `.pt2` files, and JAX's tracing and
    exports. Outside of an export the block does nothing. Blocks nest; each op has the marks of all
    blocks around it.

    Args:
      name: name of the block in `--never-fuse`, `--must-fuse` and explanations.
      fuse: `never`: the ops join no group; `must`: they end in one group, or compiling fails with
        the reason, each time that the block is entered; `auto`: the engine decides.

    Raises:
      UsageError: an invalid name, or an unknown word.
    """
    text = mark(name, fuse)
    if fuse == "must":
        entry = _entered.get(name, 0)
        _entered[name] = entry + 1
        text = mark(name, fuse, entry)
    # Plain `with` statements: PyTorch's compiler, which a strict export runs, traces nothing else.
    if "torch" not in sys.modules:
        with _jax_scope(text):
            yield
        return
    import torch
    from torch.fx import traceback

    # Without the second, an export that is not strict drops the first; in the other order a block
    # would keep the marks of the blocks inside it.
    with traceback.annotate({text: True}), traceback.preserve_node_meta():
        if torch.compiler.is_dynamo_compiling():
            yield
        else:
            with _jax_scope(text):
                yield


def _jax_scope(text: str) -> contextlib.AbstractContextManager[Any]:
    if "jax" not in sys.modules:
        return contextlib.nullcontext()
    import jax

    scope: contextlib.AbstractContextManager[Any] = jax.named_scope(text)
    return scope


def of_metadata(custom: Mapping[str, Any] | None) -> list[str]:
    """The marks in the metadata `custom` of a PyTorch node."""
    return [key for key in custom or () if isinstance(key, str) and key.startswith(PREFIX)]
