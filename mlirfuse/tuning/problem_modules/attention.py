"""Regions of attention, in f16 or f32."""

from __future__ import annotations

from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText, Tensor, affine_map

_LOOPS = "hgmndk"
"""Heads, query heads of each KV head, queries, elements of a value, of a query, and keys."""


def module_text(problem: AttentionProblem) -> str:
    """A module whose region has the problem, with one query head for each KV head."""
    region, kind = RegionText(), f"f{problem.operand_bits}"
    scale = region.constant("0.125", kind)
    heads, queries, keys, size = problem.heads, problem.queries, problem.keys, problem.head_size
    q = region.argument((heads, 1, queries, size), kind)
    k, v = (region.argument((heads, keys, size), kind) for _ in range(2))
    mask = _mask(region, problem)
    maps = ["hgmd", "hkd", "hkn", "", *(["mk"] if mask else []), "hgmn"]
    operands = [q.name, k.name, v.name, scale, *([mask.name] if mask else [])]
    types = [q.type, k.type, v.type, kind, *([mask.type] if mask else [])]
    init = region.empty((heads, 1, queries, size), kind)
    out = region.define(
        "iree_linalg_ext.attention <indexing_maps = ["
        f"{', '.join(affine_map(_LOOPS, each) for each in maps)}]>"
        f" ins({', '.join(operands)} : {', '.join(types)}) outs({init.name} : {init.type}) {{\n"
        "^bb0(%s: f32):\niree_linalg_ext.yield %s : f32\n} ->",
        init.shape,
        kind,
    )
    return region.module(out)


def _mask(region: RegionText, problem: AttentionProblem) -> Tensor | None:
    """The mask: computed for a causal one, an argument for a general one."""
    shape = (problem.queries, problem.keys)
    if problem.mask == "none":
        return None
    if problem.mask == "general":
        return region.argument(shape, "i1")
    body = [
        "%i = linalg.index 0 : index",
        "%j = linalg.index 1 : index",
        "%z = arith.cmpi sge, %i, %j : index",
    ]
    return region.generic("mk", [], [(shape, "i1", "mk")], body)[0]
