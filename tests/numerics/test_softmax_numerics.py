"""Softmax in one dispatch agrees with the unfused program and float64."""

import numpy as np
import pytest

from helpers.attention_text import B, Graph, H, K, M
from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Tensor

CAST_ULPS = 4.0
"""Units that rounded exponentials, their sum and the quotient are off by, casts included."""

NARROW_ULPS = 8.0
"""The same where every op rounds to a narrow type."""

ULPS_PER_ROOT = 0.25
"""Units for the square root of the number of addends: roundings of a sequential sum, as IREE
takes it, are a random walk."""

SCALE = 0.125


def softmax(x, extra=0.0):
    x = x + extra
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def safe_softmax(x, extra=0.0):
    closed = np.all(x + extra == -np.inf, -1, keepdims=True)
    return np.where(closed, 0.0, softmax(x, extra))


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def inputs(shape: tuple[int, ...], dtype: str, large: float) -> dict[str, np.ndarray]:
    """Ordinary rows, and rows that break careless implementations."""
    rng = np.random.default_rng(11)
    normal = 3.0 * rng.standard_normal(shape)
    closed = normal.copy()
    closed[..., 0, :] = -np.inf
    closed[..., 1, ::2] = -np.inf
    closed[..., -1, :-1] = -np.inf
    special = normal.copy()
    special[..., 0, shape[-1] // 2] = np.inf
    special[..., 1, 0] = np.nan
    special[..., 2, :] = -np.inf
    special[..., 2, -1] = np.nan
    sets = {
        "normal": normal,
        "equal": np.full(shape, 1.5),
        "large": large * rng.standard_normal(shape),
        "far apart": np.where(rng.random(shape) < 0.1, large, -large),
        "closed": closed,
        "special": special,
    }
    return {name: data.astype(FLOATS[dtype]) for name, data in sets.items()}


def graph(name: str, rows: int | None, columns: int, batch: tuple[int, ...] = (1, 1)) -> Graph:
    return Graph(name, (*batch, 1, rows, 1, 1, columns))


ROWS = 11


def plain(
    name: str,
    *,
    columns: int = 64,
    dtype: str = "f32",
    dynamic: bool = False,
    writing: str = "op",
    fires: int = 1,
) -> Case:
    """Rows of one matrix; narrow types are widened before and narrowed after, or all the way."""
    f = graph(name, None if dynamic else ROWS, columns)
    x = f.argument((M, K), dtype)
    narrow = writing == "narrow"
    wide = x if narrow else f.cast(x, "f32")
    compute = softmax
    if writing == "log":
        highest = f.reduce("arith.maximumf", wide, (K,), -np.inf)
        shifted = f.apply("arith.subf", wide, highest)
        total = f.reduce("arith.addf", f.apply("math.exp", shifted), (K,))
        y = f.apply("arith.subf", shifted, f.apply("math.log", total))
        compute = log_softmax
    elif narrow:
        # As JAX writes it: the sum is f32 and rounded, everything else is narrow.
        highest = f.reduce("arith.maximumf", x, (K,), -np.inf)
        power = f.apply("math.exp", f.apply("arith.subf", x, highest))
        total = f.cast(f.reduce("arith.addf", f.cast(power, "f32"), (K,)), dtype)
        y = f.apply("arith.divf", power, total)
    elif writing == "reciprocal":
        highest = f.reduce("arith.maxnumf", wide, (K,), -np.inf)
        power = f.apply("math.exp", f.apply("arith.subf", wide, highest))
        total = f.reduce("arith.addf", power, (K,))
        y = f.apply("arith.mulf", power, f.apply("arith.divf", 1.0, total))
    elif writing == "safe":
        y = f.safe(wide, f.softmax(wide))
        compute = safe_softmax
    else:
        y = f.softmax(wide)
    y = f.cast(y, dtype)
    data = inputs((ROWS, columns), dtype, 1e3 if dtype == "f16" else 1e4)
    return Case(
        name=name,
        text=f.finish(y),
        inputs={title: (rows,) for title, rows in data.items()},
        reference=lambda x: (compute(x),),
        fires={"softmax_fusion": fires},
        ulps=(NARROW_ULPS if narrow else CAST_ULPS) + ULPS_PER_ROOT * columns**0.5,
        computed=dtype,
        dispatches=1 if fires else None,
    )


def masked(name: str, *, dynamic: bool, safe: bool, columns: int = 48) -> Case:
    """Scaled scores of four dimensions plus a mask that all heads share."""
    batch, heads = 2, 3
    f = graph(name, None if dynamic else ROWS, columns, (batch, heads))
    x = f.argument((B, H, M, K), "f32")
    mask = f.argument((B, M, K), "f32")
    scores = f.apply("arith.addf", f.apply("arith.mulf", x, SCALE), mask)
    y: Tensor = f.softmax(scores)
    if safe:
        y = f.safe(scores, y)
    compute = safe_softmax if safe else softmax
    rng = np.random.default_rng(12)
    low = np.where(rng.random((batch, ROWS, columns)) < 0.3, -np.inf, 0.0).astype(np.float32)
    low[0, 3] = -np.inf
    data = inputs((batch, heads, ROWS, columns), "f32", 1e4)
    return Case(
        name=name,
        text=f.finish(y),
        inputs={title: (rows, low) for title, rows in data.items()},
        reference=lambda x, mask: (compute(x * SCALE, mask[:, None]),),
        fires={"softmax_fusion": 1},
        ulps=CAST_ULPS + ULPS_PER_ROOT * columns**0.5,
        dispatches=1,
    )


def cases() -> list[Case]:
    widths = [plain(f"columns_{n}", columns=n) for n in (16, 100, 128, 197, 1000, 2048, 4096, 8191)]
    types = [
        plain(f"{writing}_{dtype}", writing=writing, dtype=dtype)
        for writing, dtype in (
            ("op", "f16"),
            ("op", "bf16"),
            ("narrow", "f16"),
            ("narrow", "bf16"),
            ("log", "f32"),
            ("reciprocal", "f32"),
            ("safe", "f32"),
            ("safe", "f16"),
        )
    ]
    dynamic = [
        plain(f"dynamic_{writing}_{n}", writing=writing, columns=n, dynamic=True)
        for writing, n in (("op", 64), ("op", 197), ("op", 4096), ("safe", 64), ("log", 100))
    ]
    masks = [
        masked(
            f"masked_{'dynamic' if d else 'static'}_{'safe' if s else 'plain'}", dynamic=d, safe=s
        )
        for d in (False, True)
        for s in (False, True)
    ]
    short = [plain("one_column", columns=1, fires=0)]
    return [*widths, *types, *dynamic, *masks, *short]


CASES = cases()


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=CASES, pipeline="softmax_fusion").run()


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_cpu(name, outcomes):
    outcomes[name].check()


VULKAN = [
    case
    for case in CASES
    if case.name
    in ("safe_f32", "safe_f16", "log_f32", "masked_static_safe", "masked_dynamic_plain")
]


@pytest.fixture(scope="module")
def vulkan_outcomes(vulkan):
    return Batch(cases=VULKAN, pipeline="softmax_fusion", target=vulkan).run()


@pytest.mark.parametrize("name", [case.name for case in VULKAN])
def test_vulkan(name, vulkan_outcomes):
    vulkan_outcomes[name].check()
