"""Plans the kernels of a module, and calls them with Triton's interpreter on the CPU."""

import importlib.util

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels.registry import FAMILIES
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import ops
from mlirfuse.tuning import kernel_search

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
TARGET = targets.parse("cuda:sm_90")
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}

SUPPORTS = {
    **{name: family.plan for name, family in FAMILIES.items()},
    "rows": FAMILIES["reduction"].plan,
    "elementwise": FAMILIES["pointwise"].plan,
}
"""Name of a family, or of two of them by their regions -> its planner."""
KERNEL_PASSES = tuple(name for name in registry.passes() if name.endswith("_triton_kernel"))


APART = ("lone_elementwise_fusion", "dequant_fusion")
"""Passes that give kernels of their own to casts that other kernels could read in their loops."""


_LAYOUTS = ("filter_layout_rewrite", "channels_last_rewrite")


def planned(text, kind, without=()):
    """The plan of each group of the module, while its context lives; passes may be left out."""
    options = FusionOptions(
        single_op_groups=kind != "attention",
        enable_feature=("kernels",),
        disable_pass=(
            *KERNEL_PASSES,
            *(APART if kind in ("attention", "matmul") else ()),
            # Filters and images are read as they are, whatever their layout.
            *(_LAYOUTS if kind == "convolution" else ()),
            *without,
        ),
    )
    grouped, _ = engine.run(ir.Module.parse(text), target=TARGET, options=options)
    return grouped, [SUPPORTS[kind](region, TARGET) for region in kernel_search.regions(grouped)]


def to_torch(torch, array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))


def argument_index(value):
    """The argument of the function that the value is, or is a reshape of."""
    while not isinstance(value.owner, ir.Block):
        value = value.owner.operation.operands[0]
    return ir.BlockArgument(value).arg_number


def size_arguments(step, arrays, shape):
    """The sizes of these arrays and of a result of that shape, as arguments of a kernel."""
    found = []
    for size in step.sizes:
        known = ops.shape(size.value)
        own = size.value in step.results
        given = shape if own else arrays[argument_index(size.value)].shape
        if len(given) == len(known):
            found.append(given[size.dim])
            continue
        static = np.prod([size for size in known if size is not None])
        found.append(int(np.prod(given) // static))
    return found


def destination_of(plan, arrays):
    """The tensor that a plan's kernel updates in place, before; None where it has none."""
    if plan.destination is None:
        return None
    number = ops.constant(plan.destination)
    if number is None:
        return arrays[argument_index(plan.destination)]
    kind, shape = ops.element_type(plan.destination), ops.shape(plan.destination)
    return np.full(shape, number, NUMPY.get(kind) or kind.replace("i", "int"))


def run(interpreter, text, kind, arrays, shapes, without=()):
    """Calls the kernel of the module's one group of this kind.

    Results of `shapes` start as NaN, or as the tensor that the kernel updates in place.
    """
    torch = interpreter.torch
    with ir.Context():
        grouped, plans = planned(text, kind, without)
        plans = [plan for plan in plans if plan is not None]
        assert len(plans) == 1, str(grouped)
        plan = plans[0]
        assert not isinstance(plan, NoMatch | None), f"{plan}\n{grouped}"
        steps = plan.kernels()
        told = [size_arguments(step, arrays, shapes[0]) for step in steps]
        assert [len(step.scratch) > 0 for step in steps] == [True] * (len(steps) - 1) + [False]
        read = {v: arrays[argument_index(v)] for step in steps for v in step.operands}
        given = [[to_torch(torch, read[v]) for v in step.operands] for step in steps]
        updated = destination_of(plan, arrays)
    floats = {"*fp64": torch.float64, "*fp32": torch.float32}
    floats |= {"*fp16": torch.float16, "*bf16": torch.bfloat16}
    types = {**floats, **{f"*i{n}": getattr(torch, f"int{n}") for n in (8, 16, 32, 64)}}
    results = []
    for step, inputs, sizes in zip(steps, given, told, strict=True):
        program = step.program
        module = interpreter.load(program.source, program.entry)
        kinds = [kind for name, kind in program.arguments if name.startswith("y")]
        inputs = [*results, *inputs]
        written = [[e.count(sizes) for e in shape] for shape in step.scratch] or shapes
        results = [
            torch.full(s, float("nan") if k in floats else 99, dtype=types[k])
            for s, k in zip(written, kinds, strict=True)
        ]
        if updated is not None and step is steps[-1]:
            results = [to_torch(torch, updated).clone()]
        grid = tuple(extent.count(sizes) for extent in step.grid)
        with np.errstate(all="ignore"):
            getattr(module, program.entry)[grid](*inputs, *results, *sizes)
        unknown = any(np.isnan(array.astype(np.float32)).any() for array in arrays)
        assert unknown or not (step.scratch and any(r.isnan().any() for r in results))
    # Numbers of 64 bits are exact as they are.
    return [(r if r.dtype == torch.int64 else r.to(torch.float64)).numpy() for r in results]


def draw(shape, dtype, seed=0, spread=1.0):
    numbers = np.random.default_rng(seed).standard_normal(shape) * spread
    return np.asarray(numbers).astype(NUMPY[dtype])


def close(found, expected, dtype):
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    scale = np.nanmax(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * scale)
