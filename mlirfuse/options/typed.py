"""The switches as keyword arguments, for type checkers.

`mlirfuse.compile(..., disabel_pass=[...])` is an error of mypy and pyright. A test compares these
names with the fields of `FusionOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypedDict

Names = str | Iterable[str] | None
"""Names separated by commas, or several of them."""

Groups = str | Sequence[str | Iterable[str]] | None
"""Groups of locations."""

OnOff = bool | str | None
"""`on`, `off` or a truth value."""


class SwitchArguments(TypedDict, total=False):
    """Switches of `FusionOptions` as a caller gives them; None means not given."""

    load_pass: Names
    pipeline: str | None
    disable_pass: Names
    enable_pass: Names
    skip_op_kind: Names
    single_op_groups: OnOff
    horizontal: OnOff
    never_fuse: Names
    must_fuse: Groups
    numerics: str | None
    float32_matmul_precision: str | None
    float32_conv_precision: str | None
    disable_feature: Names
    enable_feature: Names
    fusion_limit: int | str | None
    profile: str | os.PathLike[str] | None
