"""Programs of the norm passes agree with the unfused program and float64."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function
from helpers.norm_text import EPSILON, WRITINGS, broadcast, group_norm_text, mean

ALL = ",".join(
    [
        "group_norm_fusion",
        "add_layer_norm_v3_fusion",
        "add_layer_norm_ext_fusion",
        "add_layer_norm_fusion",
        "add_cast_rms_norm_cast_fusion",
        "add_rms_norm_fusion",
        "layer_norm_fusion",
        "rms_norm_fusion",
    ]
)
"""In the order of the default preset."""

CAST_ULPS = 3.0
"""f32 statistics of f16 and bf16 data: one rounding at each cast and each narrow op."""

ULPS_PER_TERM = 1 / 8
"""Each add of a reduction rounds; eight lanes of a vector add an eighth of the row each."""


def reference(centered: bool, axes: tuple[int, ...]):
    def compute(x, gamma=1.0, beta=0.0):
        shifted = x - x.mean(axes, keepdims=True) if centered else x
        variance = (shifted * shifted).mean(axes, keepdims=True)
        return shifted / np.sqrt(variance + EPSILON) * gamma + beta

    return compute


def extreme_rows(size: int, dtype: np.dtype, large: float) -> np.ndarray:
    """Rows that break naive implementations, with ordinary rows between them."""
    normal = np.random.default_rng(3).standard_normal
    tiny = float(np.finfo(np.float16).smallest_subnormal if dtype == np.float16 else 1e-40)
    rows = [
        normal(size),
        large + normal(size),
        tiny * np.arange(size),
        np.full(size, 3.14159),
        np.zeros(size),
        normal(size),
        np.full(size, -0.0),
        normal(size) * large,
    ]
    return np.stack(rows)


def special_rows(size: int, dtype: np.dtype) -> np.ndarray:
    """Infinities, NaNs and an overflow, with ordinary rows between them."""
    rows = np.random.default_rng(4).standard_normal((7, size))
    rows[1, size // 2], rows[2, 0], rows[4, -1] = np.inf, -np.inf, np.nan
    rows[5] = float(ml_dtypes.finfo(dtype).max)
    return rows


def exact_rows(rows: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Small integers with mean zero: mean and variance are exact in any order of summation."""
    size = int(np.prod(shape))
    half = np.random.default_rng(5).integers(-3, 4, (rows, size // 2))
    middle = np.zeros((rows, size % 2), half.dtype)
    return np.concatenate([half, middle, -half], axis=1).reshape(rows, *shape).astype(dtype)


def make(
    name: str,
    writing: str,
    *,
    dtype: str = "f32",
    stats: str = "f32",
    shape: tuple[int, ...] = (64,),
    rows: int | None = None,
    add: bool = False,
    keep_sum: bool = False,
    affine: tuple[str | None, ...] | None = None,
    fires: str = "",
) -> Case:
    """A case of one norm over all dimensions of `shape`, with an affine part of that shape.

    Args:
      name: of the function.
      writing: a key of `WRITINGS`.
      dtype: element type of the input, and of scale and shift unless `affine` gives theirs.
      stats: element type of the statistics.
      shape: shape of the input.
      rows: how many there are; None for a dynamic number.
      add: whether the sum of two tensors is normalized.
      keep_sum: whether that sum is a result too.
      affine: element types of scale and shift, None for one that is missing.
      fires: the pass that takes it, unless one of the four without variants does.
    """
    centered = "layer" in writing
    f = Function(name, (rows, *shape))
    everything, axes = tuple(range(1 + len(shape))), tuple(range(1, 1 + len(shape)))
    x = f.argument(everything, dtype)
    r = f.argument(everything, dtype) if add else None
    types = affine or ((dtype, dtype) if centered else (dtype,))
    parts = [None if kind is None else f.argument(axes, kind) for kind in types]
    total = x if r is None else f.apply("arith.addf", x, r)
    y = WRITINGS[writing](f, total, axes, *parts, stats=stats)
    results = (y, total) if keep_sum else (y,)

    compute = reference(centered, axes)
    named = [key for key, part in zip(("gamma", "beta"), parts, strict=False) if part is not None]

    def numpy_form(x, *rest):
        s, given = (x + rest[0], rest[1:]) if add else (x, rest)
        normed = compute(s, **dict(zip(named, given, strict=True)))
        return (normed, s) if keep_sum else (normed,)

    kind = FLOATS[dtype]
    generator = np.random.default_rng(len(name))

    def arguments(data: np.ndarray) -> tuple[np.ndarray, ...]:
        affine = [generator.standard_normal(shape).astype(FLOATS[p.dtype]) for p in parts if p]
        other = [generator.standard_normal(data.shape).astype(kind)] if add else []
        return (data.astype(kind), *other, *affine)

    counts = (rows,) if rows is not None else (1, 5, 17)
    inputs = {f"normal {m}": arguments(generator.standard_normal((m, *shape))) for m in counts}
    size = int(np.prod(shape))
    # A difference of moments cannot have a mean far above the deviation, and narrow statistics
    # overflow.
    large = 4.0 if "fast" in writing or stats != "f32" else 1e4
    for title, data in (
        ("extreme", extreme_rows(size, kind, large)),
        ("special", special_rows(size, kind)),
    ):
        whole = np.resize(data, (rows or len(data), size))
        inputs[title] = arguments(whole.reshape(len(whole), *shape))
    whole = exact_rows(counts[-1], shape, kind)
    other = (np.zeros_like(whole),) if add else ()
    neutral = [
        np.full(shape, number, FLOATS[part.dtype])
        for number, part in zip((1.0, 0.0), parts, strict=False)
        if part is not None
    ]
    inputs["exact sums"] = (whole, *other, *neutral)
    plain = "layer_norm_fusion" if centered else "rms_norm_fusion"
    return Case(
        name=name,
        text=f.finish(*results),
        inputs=inputs,
        reference=numpy_form,
        fires={fires or (f"add_{plain}" if add else plain): 1},
        ulps=CAST_ULPS + (size * ULPS_PER_TERM if stats == dtype else 0.0),
        computed=dtype if add else stats,
        hostile=frozenset({"special"}),
        exact=frozenset({"exact sums"}),
        dispatches=1,
    )


def group_case(
    name: str,
    *,
    dtype: str = "f32",
    channels_last: bool = False,
    per_group: int = 2,
    rows: int | None = None,
) -> Case:
    """A group norm over four groups; one channel a group is an instance norm."""
    groups, space = 4, 6
    channels = groups * per_group
    text = group_norm_text(name, dtype, rows, groups, per_group, space, channels_last)

    def grouped(x):
        """As (batch, group, all the rest)."""
        first = np.moveaxis(x, 2, 1) if channels_last else x
        return first.reshape(len(x), groups, -1)

    def restored(z):
        first = z.reshape(len(z), channels, space)
        return np.moveaxis(first, 1, 2) if channels_last else first

    def numpy_form(x, gamma, beta):
        shape = (1, -1) if channels_last else (-1, 1)
        normed = restored(reference(True, (2,))(grouped(x)))
        return (normed * gamma.reshape(shape) + beta.reshape(shape),)

    kind = FLOATS[dtype]
    size = per_group * space
    normal = np.random.default_rng(9).standard_normal

    def arguments(lines: np.ndarray, neutral: bool = False) -> tuple[np.ndarray, ...]:
        count = rows or -(-len(lines) // groups)
        x = restored(np.resize(lines, (count, groups, size))).astype(kind)
        scale, shift = (np.ones(channels), np.zeros(channels)) if neutral else normal((2, channels))
        return x, scale.astype(kind), shift.astype(kind)

    return Case(
        name=name,
        text=text,
        inputs={
            "normal": arguments(normal((12, size))),
            "extreme": arguments(extreme_rows(size, kind, 1e4)),
            "special": arguments(special_rows(size, kind)),
            "exact sums": arguments(exact_rows(8, (size,), kind), neutral=True),
        },
        reference=numpy_form,
        fires={"group_norm_fusion": 1},
        ulps=CAST_ULPS + (size * ULPS_PER_TERM if dtype == "f32" else 0.0),
        hostile=frozenset({"special"}),
        exact=frozenset({"exact sums"}),
        dispatches=1,
    )


def group_cases() -> list[Case]:
    return [
        group_case("group_norm_f32"),
        group_case("group_norm_channels_last", channels_last=True, rows=3),
        group_case("group_norm_f16", dtype="f16", rows=2),
        group_case("group_norm_bf16", dtype="bf16", channels_last=True),
        group_case("instance_norm", per_group=1),
    ]


def across_reshape(name: str, writing: str, axes: tuple[int, ...], fires: str) -> Case:
    """The add is on flat rows, the norm on (batch, row, column); the flat sum is a result too."""
    batch, rows, columns = 3, 4, 32
    f = Function(name, (batch, rows, batch * rows, columns))
    x, r = f.argument((2, 3), "f32"), f.argument((2, 3), "f32")
    flat = f.apply("arith.addf", x, r)
    total = f.reshape(flat, (0, 1, 3), "[[0, 1], [2]]")
    gamma = f.argument((3,), "f32")
    affine = (gamma, None) if writing == "layer_norm" else (gamma,)
    y = WRITINGS[writing](f, total, axes, *affine, stats="f32")

    def numpy_form(x, r, gamma):
        places = tuple({1: 1, 3: 2}[axis] for axis in axes)
        wide = (x + r).reshape(batch, rows, columns)
        return reference(writing == "layer_norm", places)(wide, gamma), x + r

    normal = np.random.default_rng(6).standard_normal
    other = normal((batch * rows, columns)).astype(np.float32)
    scale = normal(columns).astype(np.float32)
    lines = np.resize(extreme_rows(columns, np.dtype(np.float32), 1e4), (batch * rows, columns))
    return Case(
        name=name,
        text=f.finish(y, flat),
        inputs={
            "normal": (normal(other.shape).astype(np.float32), other, scale),
            "extreme": (lines.astype(np.float32), other, scale),
        },
        reference=numpy_form,
        fires={fires: 1},
        ulps=CAST_ULPS + rows * columns * ULPS_PER_TERM,
        dispatches=1,
    )


def read_elsewhere() -> Case:
    """The mean, its broadcast, the reciprocal deviation and the unscaled norm leave the group."""
    f = Function("read_elsewhere", (None, 64))
    x, gamma = f.argument((0, 1), "f32"), f.argument((1,), "f32")
    average = mean(f, x, (1,))
    averages = broadcast(f, average, (0, 1))
    centered = f.apply("arith.subf", x, averages)
    variance = mean(f, f.apply("arith.mulf", centered, centered), (1,))
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, EPSILON))
    normed = f.apply("arith.mulf", centered, broadcast(f, rstd, (0, 1)))
    y = f.apply("arith.mulf", normed, gamma)

    def numpy_form(x, gamma):
        shifted = x - x.mean(1, keepdims=True)
        deviation = np.sqrt((shifted * shifted).mean(1) + EPSILON)
        scaled = shifted / deviation[:, None]
        averages = np.broadcast_to(x.mean(1, keepdims=True), x.shape)
        return scaled * gamma, x.mean(1), averages, 1.0 / deviation, scaled

    normal = np.random.default_rng(2).standard_normal
    return Case(
        name="read_elsewhere",
        text=f.finish(y, average, averages, rstd, normed),
        inputs={
            f"{m} rows": (normal((m, 64)).astype(np.float32), normal(64).astype(np.float32))
            for m in (1, 5, 16)
        },
        reference=numpy_form,
        fires={"layer_norm_fusion": 1},
        ulps=CAST_ULPS + 64 * ULPS_PER_TERM,
        # The broadcast is a dispatch of its own.
        dispatches=2,
    )


def cases() -> list[Case]:
    plain = [
        make(f"{writing}_{dtype}_{stats}", writing, dtype=dtype, stats=stats)
        for writing, (dtype, stats) in itertools.product(
            WRITINGS,
            [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f16", "f16"), ("bf16", "bf16")],
        )
    ]
    shapes = [
        make(f"{writing}_axes_{len(shape)}", writing, shape=shape, rows=rows)
        for writing, (shape, rows) in itertools.product(
            ["layer_norm", "rms_norm"], [((4, 32), 6), ((4, 2, 16), None)]
        )
    ]
    static = [make("layer_norm_static", "layer_norm", shape=(384,), rows=12)]
    adds = [
        make(f"add_{writing}_{dtype}_{keep}", writing, dtype=dtype, add=True, keep_sum=keep)
        for writing, dtype, keep in [
            ("layer_norm", "f32", True),
            ("layer_norm", "bf16", False),
            ("fast_layer_norm", "f32", False),
            ("rms_norm", "f32", False),
        ]
    ]
    v3, ext, cast = (
        f"add_{n}_fusion" for n in ("layer_norm_v3", "layer_norm_ext", "cast_rms_norm_cast")
    )
    variants = [
        make("v3_f32", "layer_norm", shape=(4, 32), add=True, keep_sum=True, fires=v3),
        make(
            "v3_f16",
            "layer_norm",
            dtype="f16",
            shape=(4, 32),
            add=True,
            affine=("f32", None),
            fires=v3,
        ),
        make("v3_bf16", "layer_norm", dtype="bf16", shape=(2, 4, 8), rows=5, add=True, fires=v3),
        make("ext_f32", "layer_norm", add=True, keep_sum=True, affine=("f32", None), fires=ext),
        make("ext_f16", "layer_norm", dtype="f16", add=True, affine=("f32", "f32"), fires=ext),
        make("ext_bf16", "layer_norm", dtype="bf16", add=True, affine=(None, None), fires=ext),
        make("cast_f16", "rms_norm", dtype="f16", add=True, keep_sum=True, fires=cast),
        make("cast_bf16", "divided_rms_norm", dtype="bf16", rows=6, add=True, fires=cast),
    ]
    reshaped = [
        across_reshape("v3_across_reshape", "layer_norm", (1, 3), v3),
        across_reshape("add_rms_across_reshape", "rms_norm", (3,), "add_rms_norm_fusion"),
    ]
    several = [*group_cases(), read_elsewhere()]
    return [*plain, *shapes, *static, *adds, *variants, *reshaped, *several]


CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=ALL).run()


@pytest.mark.parametrize("name", CASES)
def test_norm(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [make(f"vulkan_{writing}", writing, rows=8) for writing in ("layer_norm", "rms_norm")]
    cases += [
        make(f"vulkan_add_{writing}", writing, rows=8, add=True, keep_sum=True)
        for writing in ("layer_norm", "rms_norm")
    ]
    cases += [
        make(
            "vulkan_v3",
            "layer_norm",
            rows=8,
            shape=(4, 8),
            add=True,
            fires="add_layer_norm_v3_fusion",
        ),
        make(
            "vulkan_ext",
            "layer_norm",
            rows=8,
            add=True,
            affine=(None, None),
            fires="add_layer_norm_ext_fusion",
        ),
        make(
            "vulkan_cast",
            "rms_norm",
            dtype="f16",
            rows=8,
            add=True,
            fires="add_cast_rms_norm_cast_fusion",
        ),
        group_case("vulkan_instance_norm", per_group=1, rows=2),
    ]
    for outcome in Batch(cases=cases, pipeline=ALL, target=vulkan).run().values():
        outcome.check()


def test_norms_from_jax():
    """`jnp.var` with its guarded divisor, the flax arithmetic and an RMS norm in one program."""
    import jax
    import jax.numpy as jnp

    def layer_norm(x, g, b):
        shifted = x - jnp.mean(x, -1, keepdims=True)
        return shifted * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + EPSILON) * g + b

    def fast_layer_norm(x, g, b):
        mean = jnp.mean(x, -1, keepdims=True)
        square = jnp.mean(jnp.square(x), -1, keepdims=True)
        variance = jnp.maximum(0.0, square - jnp.square(mean))
        return (x - mean) * (jax.lax.rsqrt(variance + EPSILON) * g) + b

    def rms_norm(x, g):
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + EPSILON) * g

    def main(x, r, g, b):
        total = x + r
        return layer_norm(x, g, b), fast_layer_norm(total, g, b), total, rms_norm(x, g)

    def numpy_form(x, r, g, b):
        layer, root = reference(True, (1,)), reference(False, (1,))
        return layer(x, g, b), layer(x + r, g, b), x + r, root(x, g)

    normal = np.random.default_rng(11).standard_normal
    arguments = tuple(normal(s).astype(np.float32) for s in ((6, 48), (6, 48), (48,), (48,)))
    case = Case(
        name="main",
        text=jax.jit(main).lower(*arguments).as_text(),
        inputs={"normal": arguments},
        reference=numpy_form,
        fires={
            "decided_condition_rewrite": 1,
            "layer_norm_fusion": 1,
            "add_layer_norm_fusion": 1,
            "rms_norm_fusion": 1,
        },
        ulps=CAST_ULPS + 48 * ULPS_PER_TERM,
        dispatches=3,
    )
    pipeline = f"decided_condition_rewrite,{ALL}"
    Batch(cases=[case], pipeline=pipeline, input_type="stablehlo").run()["main"].check()
