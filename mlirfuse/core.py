"""The vocabulary of the engine: passes, matches, reasons, decisions, errors.

All code and all users import these names from here. None of their modules knows a pass or a switch,
nor more of a target than its name.
"""

from mlirfuse.errors import (
    CallError,
    CompileFailedError,
    ImportFailedError,
    MlirfuseError,
    MustFuseError,
    PassFailedError,
    UsageError,
    nearest,
    normalized,
)
from mlirfuse.fusion_pass import (
    TARGET_NAMES,
    FusionPass,
    GroupRules,
    Kind,
    Match,
    NoOptions,
    Numerics,
    PassContext,
)
from mlirfuse.reasons import NoMatch, Reason
from mlirfuse.report import (
    SCHEMA_VERSION,
    Candidate,
    Decision,
    PassRun,
    Report,
)

__all__ = [
    "SCHEMA_VERSION",
    "TARGET_NAMES",
    "CallError",
    "Candidate",
    "CompileFailedError",
    "Decision",
    "FusionPass",
    "GroupRules",
    "ImportFailedError",
    "Kind",
    "Match",
    "MlirfuseError",
    "MustFuseError",
    "NoMatch",
    "NoOptions",
    "Numerics",
    "PassContext",
    "PassFailedError",
    "PassRun",
    "Reason",
    "Report",
    "UsageError",
    "nearest",
    "normalized",
]
