"""Ways to compile the program of a plan into one kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to compile a program into one kernel: switches of `mlirfuse.compile`.

    Attributes:
      name: name in reports and in the find-db.
      switches: values of `FusionOptions`.
      computes_positions: whether windows compute the positions that they read, in place of reading
        a padded image.
    """

    name: str
    switches: Mapping[str, object]
    computes_positions: bool = False


KERNELS = Strategy(name="kernels", switches={})
IREE = Strategy(name="iree", switches={"disable_feature": ("kernels",)})
UNPACKED = Strategy(
    name="unpacked",
    switches={"disable_pass": ("conv_vector_kernel", "matmul_vector_kernel")},
)
FILTER_AS_GIVEN = Strategy(
    name="filter_as_given", switches={"disable_pass": ("filter_layout_rewrite",)}
)
ONE_GROUP = Strategy(
    name="one_group",
    switches={
        "load_pass": ("mlirfuse.fusion_plan.one_group_fusion:PASS",),
        "pipeline": "one_group_fusion",
        "disable_feature": ("fallback",),
    },
)
ONE_GROUP_IREE = dataclasses.replace(
    ONE_GROUP,
    name="one_group_iree",
    switches={**ONE_GROUP.switches, "disable_feature": ("fallback", "kernels")},
)
ONE_GROUP_UNSPLIT = dataclasses.replace(
    ONE_GROUP,
    name="one_group_unsplit",
    switches={
        **ONE_GROUP.switches,
        "pipeline": "one_group_fusion,"
        + ",".join(
            f"{name}_triton_kernel{{several-kernels=false}}" for name in ("conv", "matmul", "row")
        ),
    },
)
COMPUTED_POSITIONS = dataclasses.replace(IREE, name="computed_positions", computes_positions=True)
COMPUTED_IN_ONE_GROUP = dataclasses.replace(
    ONE_GROUP_IREE, name="computed_positions_in_one_group", computes_positions=True
)
