"""The Python module of a kernel: imports, functions that it calls, and its definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

TextOf = Callable[[str, Sequence[tuple[str, str]], Sequence[str], str], str]
"""Makes the module of a kernel, as `text_of` does."""

_TRITON = """\
import triton
import triton.language as tl

from mlirfuse.kernels.device import library, reduction_sm90


"""

_GLUON = """\
from triton.experimental import gluon
from triton.experimental.gluon import language as tl


"""


def text_of(
    entry: str,
    arguments: Sequence[tuple[str, str]],
    lines: Sequence[str],
    note: str,
    *,
    gluon: bool = False,
    imported: str = "",
    functions: str = "",
) -> str:
    """The module of a kernel.

    Args:
      entry: the kernel's name.
      arguments: name and type of each.
      lines: its body.
      note: docstring of the module, one line.
      gluon: whether the lines are Gluon.
      imported: the import statements; those of most kernels where it is empty.
      functions: functions that the lines call, in the same language, with their decorators.
    """
    usual, decorator = (_GLUON, "@gluon.jit\n") if gluon else (_TRITON, "@triton.jit\n")
    head = f'"""{note}"""\n\n{imported or usual}{functions}{decorator}'
    head += f"def {entry}({', '.join(name for name, _ in arguments)}):\n"
    return head + "".join(f"    {line}\n" for line in lines)
