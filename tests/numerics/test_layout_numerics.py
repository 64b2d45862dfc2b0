"""Gathers, rotations, concatenations and paddings: fused, unfused and float64 agree."""

import dataclasses

import numpy as np
import pytest

import mlirfuse
from helpers import gpus
from helpers.harness import FLOATS, Batch, Case, section
from helpers.linalg_text import Function

PASSES = (
    "split_concat_fusion,slice_fusion,rope_fusion,gather_fusion,scan_fusion,"
    "batch_norm_activation_fusion,elementwise_fusion,pad_fusion,concat_fusion"
)
B, H, S, D = 2, 3, 8, 16


def draw(dtype: str, *shapes: tuple[int, ...]) -> dict[str, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(9)
    kind = FLOATS[dtype]
    hostile = [rng.standard_normal(s).astype(kind) for s in shapes]
    hostile[0].flat[0], hostile[0].flat[-1] = np.inf, np.nan
    return {
        "normal": tuple(rng.standard_normal(s).astype(kind) for s in shapes),
        "zeros": tuple(-np.zeros(s, kind) for s in shapes),
        "whole": tuple(rng.integers(-3, 4, s).astype(kind) for s in shapes),
        "hostile": tuple(hostile),
    }


def case(name, text, arrays, reference, fires, dtype, dispatches, ulps=4.0) -> Case:
    return Case(
        name=name,
        text=text,
        inputs=arrays,
        reference=lambda *a: (reference(*a),),
        fires=fires,
        ulps=ulps,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        exact=frozenset({"whole", "zeros"}),
        dispatches=dispatches,
    )


def swapped(name: str, dtype: str, dynamic: bool) -> Case:
    """q * cos + swap(q) * sin with the swap as IREE writes it, after a merging reshape."""
    batch, first = ("?", "%b") if dynamic else (str(B), str(B))
    dim = f"%b = tensor.dim %q, %c0 : tensor<?x{S}x{D}x{dtype}>" if dynamic else ""
    wide, narrow = (f"tensor<{batch}x{S}x{tail}x{dtype}>" for tail in (f"2x{D // 2}", D))
    table = f"tensor<{S}x{D}x{dtype}>"
    sizes = "(%b)" if dynamic else "()"
    own, row = (f"affine_map<(b, s, d) -> ({loops})>" for loops in ("b, s, d", "s, d"))
    text = f"""
func.func @{name}(%q: {narrow}, %cos: {table}, %sin: {table}) -> {narrow} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  {dim}
  %x = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [{first}, {S}, 2, {D // 2}]
      : {narrow} into {wide}
  %e = tensor.empty{sizes} : {wide}
  %e3 = tensor.empty{sizes} : {narrow}
  %r = linalg.generic {{indexing_maps = [affine_map<(b, s, k, d) -> (b, s, k, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} outs(%e : {wide}) {{
  ^bb0(%o: {dtype}):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : {wide}
    %n = arith.negf %v : {dtype}
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %n, %v : {dtype}
    linalg.yield %s : {dtype}
  }} -> {wide}
  %m = tensor.collapse_shape %r [[0], [1], [2, 3]] : {wide} into {narrow}
  %y = linalg.generic {{indexing_maps = [{own}, {own}, {row}, {row}, {own}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%q, %m, %cos, %sin : {narrow}, {narrow}, {table}, {table}) outs(%e3 : {narrow}) {{
  ^bb0(%a: {dtype}, %z: {dtype}, %c: {dtype}, %t: {dtype}, %o: {dtype}):
    %p = arith.mulf %a, %c : {dtype}
    %u = arith.mulf %z, %t : {dtype}
    %w = arith.addf %p, %u : {dtype}
    linalg.yield %w : {dtype}
  }} -> {narrow}
  return %y : {narrow}
}}
"""

    def reference(q, cos, sin):
        rotated = np.concatenate([-q[..., D // 2 :], q[..., : D // 2]], -1)
        return q * cos + rotated * sin

    arrays = draw(dtype, (B, S, D), (S, D), (S, D))
    return case(name, text, arrays, reference, {"rope_fusion": 1}, dtype, 1)


def moved(name: str, dtype: str, heads: tuple[int, ...], regions: int) -> Case:
    """Rotations of heads that a transpose takes out of one projection, those of the lit file."""

    def reference(x, cos, sin):
        x = x.transpose(1, 0, 2)
        turned = np.concatenate([-x[..., 8:], x[..., :8]], -1)
        y = x * cos + turned * sin
        ends = np.cumsum(heads)
        return tuple(y[end - n : end] for end, n in zip(ends, heads, strict=True))

    width = heads[0] if len(heads) == 1 else 8
    return dataclasses.replace(
        case(
            name,
            section(name, "rope_fusion"),
            draw(dtype, (32, width, 16), (32, 16), (32, 16)),
            reference,
            {"rope_fusion": regions},
            dtype,
            regions,
        ),
        reference=reference,
    )


def halves(name: str, dtype: str, dynamic: bool) -> Case:
    """Both halves from the same slices, concatenated on the last dimension."""
    b, h, s, d, half = range(5)
    f = Function(name, (None if dynamic else B, H, S, D, D // 2))
    q = f.argument((b, h, s, d), dtype)
    cos, sin = f.argument((s, half), dtype), f.argument((s, half), dtype)
    one, two = f.part(q, half, 0), f.part(q, half, D // 2)
    low = f.apply("arith.subf", f.apply("arith.mulf", one, cos), f.apply("arith.mulf", two, sin))
    high = f.apply("arith.addf", f.apply("arith.mulf", two, cos), f.apply("arith.mulf", one, sin))
    y = f.concat([low, high], 3, (b, h, s, d))

    def reference(q, cos, sin):
        one, two = q[..., : D // 2], q[..., D // 2 :]
        return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)

    arrays = draw(dtype, (B, H, S, D), (S, D // 2), (S, D // 2))
    return case(name, f.finish(y), arrays, reference, {"rope_fusion": 1}, dtype, 1)


def embedding(name: str, dtype: str, *, flat: bool) -> Case:
    """Rows of a table plus positions; with flat ones a reshape splits the rows after it."""
    rows = f"{B * S}" if flat else f"{B}x{S}"
    loops = "i" if flat else "b, s"
    kinds = '"parallel", ' * (1 if flat else 2)
    ids, found, y = (
        f"tensor<{rows}xi32>",
        f"tensor<{rows}x{D}x{dtype}>",
        f"tensor<{B}x{S}x{D}x{dtype}>",
    )
    table, places = f"tensor<20x{D}x{dtype}>", f"tensor<{S}x{D}x{dtype}>"
    both = "affine_map<(b, s) -> (b, s)>"
    own, row = (f"affine_map<(b, s, d) -> ({loops})>" for loops in ("b, s, d", "s, d"))
    given = f"tensor<{B}x{S}xi32>"
    merge = (
        f"%w = tensor.collapse_shape %v [[0, 1]] : {given} into {ids}"
        if flat
        else f"%w = tensor.cast %v : {given} to {ids}"
    )
    split = (
        f"%x = tensor.expand_shape %g [[0, 1], [2]] output_shape [{B}, {S}, {D}] : {found} into {y}"
        if flat
        else f"%x = tensor.cast %g : {found} to {y}"
    )
    text = f"""
func.func @{name}(%table: {table}, %places: {places}, %ids: {given}) -> {y} {{
  %zero = arith.constant 0 : i32
  %rows = arith.constant 20 : i32
  %ei = tensor.empty() : {given}
  %v = linalg.generic {{indexing_maps = [{both}, {both}],
      iterator_types = ["parallel", "parallel"]}} ins(%ids : {given}) outs(%ei : {given}) {{
  ^bb0(%i: i32, %o: i32):
    %n = arith.cmpi slt, %i, %zero : i32
    %a = arith.addi %i, %rows : i32
    %r = arith.select %n, %a, %i : i32
    linalg.yield %r : i32
  }} -> {given}
  {merge}
  %e = tensor.empty() : {found}
  %g = linalg.generic {{indexing_maps = [
        affine_map<({loops}, d) -> ({loops})>, affine_map<({loops}, d) -> ({loops}, d)>],
      iterator_types = [{kinds}"parallel"]}} ins(%w : {ids}) outs(%e : {found}) {{
  ^bb0(%i: i32, %o: {dtype}):
    %row = arith.index_cast %i : i32 to index
    %d = linalg.index {1 if flat else 2} : index
    %t = tensor.extract %table[%row, %d] : {table}
    linalg.yield %t : {dtype}
  }} -> {found}
  {split}
  %ey = tensor.empty() : {y}
  %r = linalg.generic {{indexing_maps = [{own}, {row}, {own}],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%x, %places : {y}, {places}) outs(%ey : {y}) {{
  ^bb0(%i: {dtype}, %j: {dtype}, %o: {dtype}):
    %s = arith.addf %i, %j : {dtype}
    linalg.yield %s : {dtype}
  }} -> {y}
  return %r : {y}
}}
"""
    ids_drawn = np.random.default_rng(3).integers(-20, 20, (B, S)).astype(np.int32)
    arrays = {key: (*pair, ids_drawn) for key, pair in draw(dtype, (20, D), (S, D)).items()}
    fires = {"gather_fusion": 1}
    return case(name, text, arrays, lambda t, p, i: t[i] + p, fires, dtype, 1)


def concatenated(name: str, dtype: str, dynamic: bool) -> Case:
    """Three operands: a chain, one op, and an argument that is copied."""
    m, a, b, c, whole = range(5)
    f = Function(name, (None if dynamic else S, D, 5, 3, D + 8))
    x, y, z = (f.argument((m, axis), dtype) for axis in (a, b, c))
    left = f.apply("arith.mulf", f.apply("math.absf", x), 2.0)
    text = f.finish(f.concat([left, f.apply("arith.negf", y), z], 1, (m, whole)))
    return case(
        name,
        text,
        draw(dtype, (S, D), (S, 5), (S, 3)),
        lambda x, y, z: np.concatenate([2 * np.abs(x), -y, z], 1),
        {"concat_fusion": 2, "elementwise_fusion": 1},
        dtype,
        3,
    )


def padded(name: str, dtype: str, dynamic: bool) -> Case:
    m, n, wide = range(3)
    f = Function(name, (None if dynamic else S, D, D + 3))
    x = f.argument((m, n), dtype)
    y = f.apply("arith.mulf", f.apply("math.absf", x), 2.0)
    text = f.finish(f.pad(y, (m, wide), (0, 1), -1.0))
    return case(
        name,
        text,
        draw(dtype, (S, D)),
        lambda x: np.pad(2 * np.abs(x), ((0, 0), (1, 2)), constant_values=-1),
        {"elementwise_fusion": 1, "pad_fusion": 1},
        dtype,
        1,
    )


def cut(name: str, dtype: str, dynamic: bool) -> Case:
    """Both slices of a chain, each computed from slices of its operands, and their product."""
    m, n, half = range(3)
    f = Function(name, (None if dynamic else S, D, D // 2))
    x, b = f.argument((m, n), dtype), f.argument((n,), dtype)
    y = f.apply("math.absf", f.apply("arith.addf", x, b))
    y = f.apply("arith.mulf", f.part(y, half, 0), f.part(y, half, D // 2))

    def reference(x, b):
        y = np.abs(x + b)
        return y[:, : D // 2] * y[:, D // 2 :]

    # Several slices of unknown size are unchanged; IREE slices the group's result.
    fires = {"elementwise_fusion": 1} if dynamic else {"slice_fusion": 1, "elementwise_fusion": 1}
    arrays = draw(dtype, (S, D), (D,))
    return case(name, f.finish(y), arrays, reference, fires, dtype, 2 if dynamic else 1)


def exchanged(name: str, dtype: str) -> Case:
    """The slices of a split on the first axis, concatenated on the second."""
    m, n, part, whole = range(4)
    f = Function(name, (S, D, S // 2, 2 * D))
    x = f.argument((m, n), dtype)
    first = f.box(x, (part, n), (0, 0))
    text = f.finish(f.concat([first, f.box(x, (part, n), (S // 2, 0))], 1, (part, whole)))
    return case(
        name,
        text,
        draw(dtype, (S, D)),
        lambda x: np.concatenate(np.split(x, 2, 0), 1),
        {"split_concat_fusion": 1},
        dtype,
        1,
    )


def cumulative(name: str, dtype: str, dynamic: bool) -> Case:
    m, n = range(2)
    f = Function(name, (None if dynamic else S, D))
    x, y = f.argument((m, n), dtype), f.argument((m, n), dtype)
    total = f.scan("arith.addf", f.apply("math.absf", x), 1)
    return case(
        name,
        f.finish(f.apply("arith.mulf", total, y)),
        draw(dtype, (S, D), (S, D)),
        lambda x, y: np.cumsum(np.abs(x), 1) * y,
        {"scan_fusion": 1},
        dtype,
        1,
        ulps=D,
    )


def normalized(name: str, dtype: str, dynamic: bool) -> Case:
    """A batch norm for inference whose variance is an argument, and a relu."""
    n, c, w = range(3)
    f = Function(name, (None if dynamic else B, H, S))
    x = f.argument((n, c, w), dtype)
    mean, var, scale, shift = (f.argument((c,), dtype) for _ in range(4))
    root = f.apply("math.sqrt", f.apply("arith.addf", f.apply("math.absf", var), 1e-2))
    y = f.apply("arith.divf", f.apply("arith.subf", x, mean), root)
    y = f.apply("arith.addf", f.apply("arith.mulf", y, scale), shift)

    def reference(x, mean, var, scale, shift):
        root = np.sqrt(np.abs(var) + 1e-2)
        y = (x - mean[:, None]) / root[:, None] * scale[:, None] + shift[:, None]
        return np.maximum(y, 0)

    made = case(
        name,
        f.finish(f.apply("arith.maximumf", y, 0.0)),
        draw(dtype, (B, H, S), *[(H,)] * 4),
        reference,
        {"batch_norm_activation_fusion": 1},
        dtype,
        1,
        ulps=8.0,
    )
    # Roots are not exact: only a norm of zeros is the same in any order.
    return dataclasses.replace(made, exact=frozenset({"zeros"}))


CASES = {
    case.name: case
    for case in [
        swapped("swapped_f32", "f32", False),
        swapped("swapped_f16", "f16", False),
        swapped("swapped_dynamic_bf16", "bf16", True),
        moved("torch_llama", "f32", (4,), 1),
        moved("queries_and_keys", "f32", (4, 2), 1),
        moved("dynamic_positions_f16", "f16", (4,), 1),
        halves("halves_f32", "f32", False),
        halves("halves_dynamic_f16", "f16", True),
        embedding("embedding_f32", "f32", flat=False),
        embedding("embedding_flat_f32", "f32", flat=True),
        embedding("embedding_flat_f16", "f16", flat=True),
        concatenated("concatenated_f32", "f32", False),
        concatenated("concatenated_dynamic_f16", "f16", True),
        cut("cut_f32", "f32", False),
        cut("cut_dynamic_f16", "f16", True),
        exchanged("exchanged_f32", "f32"),
        exchanged("exchanged_f16", "f16"),
        cumulative("cumulative_f32", "f32", False),
        cumulative("cumulative_dynamic_f32", "f32", True),
        normalized("normalized_f32", "f32", False),
        normalized("normalized_dynamic_bf16", "bf16", True),
        padded("padded_f32", "f32", False),
        padded("padded_dynamic_bf16", "bf16", True),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_layout(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        swapped("vulkan_swapped", "f32", False),
        halves("vulkan_halves", "f32", False),
        moved("queries_and_keys", "f32", (4, 2), 1),
        embedding("vulkan_embedding", "f32", flat=True),
        concatenated("vulkan_concatenated", "f32", False),
        padded("vulkan_padded", "f32", False),
        cut("vulkan_cut", "f32", False),
        exchanged("vulkan_exchanged", "f32"),
        cumulative("vulkan_cumulative", "f32", False),
        normalized("vulkan_normalized", "f32", False),
    ]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()


@pytest.mark.parametrize("target", gpus.PARAMETERS)
def test_compiles(target):
    cases = [c for n, c in CASES.items() if n.endswith("_f32") and "dynamic" not in n]
    text = "\n".join(c.text for c in cases)
    fused = mlirfuse.compile(
        text, target=target, pipeline=PASSES, function="swapped_f32", cache=False
    )
    taken = fused.report.counts()
    for name in PASSES.split(","):
        assert taken[name] == sum(c.fires.get(name, 0) for c in cases)
    assert not [d for d in fused.report.decisions if d.reason and d.reason.code == "fell_back"]
