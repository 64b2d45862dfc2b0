"""Text of the decisions of a profile of `mlirfuse-tune`, for `--explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlirfuse.explain.printing import printable


def profile_lines(profile: Mapping[str, Any] | None) -> list[str]:
    """A line for each setting of a profile: its gain, or why it does not apply.

    Args:
      profile: `Report.profile`.
    """
    if profile is None:
        return []
    section = profile["model"] or "no section for this model"
    lines = [f"profile {printable(profile['file'])}: {printable(section)}"]
    for entry in profile["entries"]:
        value = entry["value"]
        if isinstance(value, Mapping):
            value = f"{value['family']} {value.get('config') or 'as computed'}"
        name = printable(f"{entry['set']}={value}")
        if entry["applied"]:
            low, high = entry["interval"]
            lines.append(
                f"  {name}: {entry['speedup']:.3f} times as fast ({low:.3f} to {high:.3f}),"
                f" {printable(entry['where'])}"
            )
        else:
            lines.append(f"  {name}: does not apply: {printable(entry['reason'])}")
    if not profile["entries"]:
        lines.append("  no setting")
    return lines
