"""A bar chart as SVG, without a library."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

ROW, LABEL, PLOT, MARGIN = 16, 300, 420, 40
"""Height of a bar with its gap; widths of the labels, of the bars, and of the margin, in pixels."""

MAX_RATIO = 8.0
"""Ratio at the ends of the axis; longer bars are cut."""

GOOD, FAIR, BAD = "#2a7f62", "#8aa5b5", "#b5542e"


def bars(title: str, ratios: Mapping[str, float], *, low: float) -> str:
    """Ratios on a logarithmic axis around 1.

    Args:
      title: heading, one line.
      ratios: label -> ratio.
      low: ratio below which a bar has the color of a miss.
    """
    height = MARGIN + ROW * len(ratios) + MARGIN
    width = LABEL + PLOT + 2 * MARGIN
    middle = _x(1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN / 2:.0f}" y="22" font-size="13">{html.escape(title)}</text>',
    ]
    for index, (name, ratio) in enumerate(ratios.items()):
        y = MARGIN + ROW * index
        end = _x(ratio)
        color = GOOD if ratio >= 1 else FAIR if ratio >= low else BAD
        lines += [
            f'<text x="{LABEL}" y="{y + 11}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{min(middle, end):.1f}" y="{y + 2}" width="{abs(end - middle):.1f}" '
            f'height="{ROW - 4}" fill="{color}"/>',
            f'<text x="{LABEL + PLOT + 24}" y="{y + 11}">{ratio:.2f}</text>',
        ]
    bottom = MARGIN + ROW * len(ratios)
    for power in range(-3, 4):
        x = _x(2.0**power)
        stroke = "#333" if power == 0 else "#ccc"
        lines += [
            f'<line x1="{x:.1f}" y1="{MARGIN - 4}" x2="{x:.1f}" y2="{bottom}" stroke="{stroke}"/>',
            f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{2.0**power:g}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _x(ratio: float) -> float:
    """Position of a ratio on the axis, in pixels."""
    limit = math.log(MAX_RATIO)
    part = max(-1.0, min(1.0, math.log(ratio) / limit))
    return LABEL + 12 + PLOT / 2 * (1 + part)
