"""Every switch in one object, and the one order in which places may set it.

Later places win: defaults < `[tool.mlirfuse]` of `mlirfuse.toml` < the environment variable
`MLIRFUSE_FLAGS` < `with scoped(...)` < command line or Python arguments. The settings of the file
that the switch `profile` names come right after the defaults. Pass switches and feature switches
are overridden by name, loaded passes add up, every other switch is overridden as a
whole. In one place disable beats enable.
"""

from mlirfuse.options.places import CONFIG_NAME, CONFIG_VARIABLE, FLAGS_VARIABLE, flag
from mlirfuse.options.selectors import Selector
from mlirfuse.options.switches import (
    ON_OFF,
    FusionOptions,
    Switch,
    scoped,
    spelled,
    switch_names,
    switches,
)
from mlirfuse.options.values import FEATURES, NUMERICS_LIMITS, OWN_FEATURES

__all__ = [
    "CONFIG_NAME",
    "CONFIG_VARIABLE",
    "FEATURES",
    "FLAGS_VARIABLE",
    "NUMERICS_LIMITS",
    "ON_OFF",
    "OWN_FEATURES",
    "FusionOptions",
    "Selector",
    "Switch",
    "flag",
    "scoped",
    "spelled",
    "switch_names",
    "switches",
]
