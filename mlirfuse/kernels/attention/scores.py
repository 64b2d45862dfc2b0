"""Scores of a block of keys: scale, further scalar operations, mask and the end of the keys."""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.kernels.attention.tiles import KEY, operand_axes
from mlirfuse.kernels.codegen.iteration_space import Space
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.structured.ir import ops

LOG2E = math.log2(math.e)

MIN_F32 = -3.4028234663852886e38
"""The lowest finite f32; a row whose keys all have this mask weighs them alike."""


def write_scores(
    tiles: Tiles, analysis: AttentionAnalysis, *, masked: bool, key_tail: bool
) -> float:
    """Writes the lines from `score`, a contraction of q and k, to the masked `score`.

    Args:
      tiles: the writer of the kernel.
      analysis: the attention.
      masked: whether the mask is applied.
      key_tail: whether the block may end beyond the last key, by `mask_n`.

    Returns:
      The factor that remains: `exp2(score * factor)` is the exponential of a score.
    """
    writer, scale = tiles.body.writer, analysis.scale * LOG2E
    mask = analysis.mask if masked else None
    tiles.forget_loads()
    _set_key_mask(tiles, "mask_n" if key_tail else "")
    score = "score"
    additive = mask is not None and ops.element_type(mask) != "i1"
    if additive or scale <= 0 or analysis.score_body is not None:
        writer.line(f"score = score * {scale!r}")
        scale = 1.0
    if analysis.score_body is not None:
        known = tiles.body.block(analysis.score_body, [score], lambda loop: "0")
        score = known[list(analysis.score_body.operations)[-1].operation.operands[0]]
    unmasked = ["mask_n"] if key_tail else []
    if mask is not None:
        for op in analysis.prologue:
            tiles.elementwise(op)
        tile = tiles.read(mask, operand_axes(analysis, 4))
        if additive:
            # The lowest f32 times log2(e) would be -inf, which masks a key in every row.
            writer.line(f"bias = {tile}.to(tl.float32)")
            biased = f"{score} + bias * {LOG2E!r}"
            writer.line(f"score = tl.maximum({biased}, {MIN_F32!r}, tl.PropagateNan.ALL)")
            score, tile = "score", 'bias != float("-inf")'
        unmasked.append(f"({tile})")
    if unmasked:
        writer.line(f'score = tl.where({" & ".join(unmasked)}, {score}, float("-inf"))')
    elif score != "score":
        writer.line(f"score = {score}")
    return scale


def _set_key_mask(tiles: Tiles, mask: str) -> None:
    """Lets loads along the keys have a mask, or none."""
    groups = list(tiles.space.groups)
    groups[KEY] = dataclasses.replace(groups[KEY], mask=mask)
    tiles.space = Space(tuple(groups))
