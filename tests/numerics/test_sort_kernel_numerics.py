"""Sorts in the vector dialect agree with numpy and with IREE bit by bit, for several CPUs."""

import dataclasses

import numpy as np
import pytest

from helpers import sort_text
from helpers.harness import Batch, Case
from helpers.sort_text import tensor
from helpers.spread import Runs
from mlirfuse import targets

TARGETS = ("cpu:host", "cpu:x86-64-v3")
"""This machine, and AVX2: vectors of 32 bytes."""

PASSES = "sort_vector_kernel"
ELEMENTS = ("f32", "f16", "bf16", "i8", "i16", "i32", "i64")


def case(name, text, x, expected):
    return Case(
        name=name,
        text=text.replace("@main", f"@{name}"),
        inputs={"x": (x,)},
        reference=lambda _: expected,
        fires={PASSES: 1},
        ulps=0,
    )


def ranked(name, **given):
    """A sort by ranks, and the elements with its indices."""
    one = sort_text.Case(**given)
    x = sort_text.elements(one, len(name))
    index = sort_text.expected(one, x)
    expected = (np.take_along_axis(x, index, one.axis), index.astype(np.int32))
    return case(name, sort_text.with_values(one), x, expected)


def exchanged(
    name, shape, dim=-1, element="f32", *, descending=False, count=0, numbered=True, worst=False
):
    """An `iree_linalg_ext.sort` with the indices, and a slice of the first elements.

    In the `worst` order each element of a row comes before all that precede it.
    """
    one = sort_text.Case(shape, dim, element, descending=descending, count=count)
    x, axis = sort_text.elements(one, len(name)), one.axis
    if "f" in element:
        x = np.where(np.isnan(x), np.ones_like(x), x)
    if worst:
        rising = np.arange(x.size, dtype=x.dtype).reshape(shape)
        x = rising if descending else -rising
    index = sort_text.expected(one, x)
    places = index.astype(np.int64)
    given, wide = tensor(shape, element), tensor(shape, "i64")
    float_name = f"arith.cmpf {'oge' if descending else 'ole'}"
    integer_name = f"arith.cmpi {'sge' if descending else 'sle'}"
    compare = float_name if "f" in element else integer_name
    loops = ", ".join(f"d{n}" for n in range(len(shape)))
    parallel = ", ".join('"parallel"' for _ in shape)
    number = f"linalg.index {axis} : index"
    if not numbered:  # another tensor: twice the index, which a kernel has to read
        number += "\n    %twice = arith.addi %l, %l : index"
        places = 2 * places
    offsets, sizes = ", ".join("0" for _ in shape), ", ".join(map(str, one.result))
    ones = ", ".join("1" for _ in shape)
    text = f"""
func.func @main(%x: {given}) -> ({tensor(one.result, element)}, {tensor(one.result, "i64")}) {{
  %e = tensor.empty() : {wide}
  %n = linalg.generic {{indexing_maps = [affine_map<({loops}) -> ({loops})>],
      iterator_types = [{parallel}]}} outs(%e : {wide}) {{
  ^bb0(%o: i64):
    %l = {number}
    %c = arith.index_cast {"%l" if numbered else "%twice"} : index to i64
    linalg.yield %c : i64
  }} -> {wide}
  %s:2 = iree_linalg_ext.sort dimension({axis}) outs(%x, %n : {given}, {wide}) {{
  ^bb0(%a: {element}, %b: {element}, %j: i64, %k: i64):
    %c = {compare}, %a, %b : {element}
    iree_linalg_ext.yield %c : i1
  }} -> {given}, {wide}
  %v = tensor.extract_slice %s#0[{offsets}] [{sizes}] [{ones}] : {given} to {
        tensor(one.result, element)
    }
  %i = tensor.extract_slice %s#1[{offsets}] [{sizes}] [{ones}] : {wide} to {
        tensor(one.result, "i64")
    }
  return %v, %i : {tensor(one.result, element)}, {tensor(one.result, "i64")}
}}"""
    return case(name, text, x, (np.take_along_axis(x, index, axis), places))


BUILT = [
    *(ranked(f"network_{e}", shape=(37, 21), element=e) for e in ELEMENTS),
    *(ranked(f"first_{e}", shape=(19, 33), element=e, count=3, descending=True) for e in ELEMENTS),
    ranked("leading_dimension", shape=(23, 48), dim=0),
    ranked("leading_dimension_odd", shape=(23, 45), dim=0, element="bf16", descending=True),
    ranked("middle_dimension", shape=(3, 26, 5), dim=1, element="i32"),
    ranked("four_dimensions", shape=(2, 3, 17, 4), dim=2, count=2),
    ranked("one_row", shape=(150,)),
    ranked("two_columns", shape=(70, 2)),
    ranked("few_rows", shape=(2, 90), element="i64", descending=True),
    exchanged("merges", (40, 130)),
    exchanged("merges_of_16_bits", (33, 200), element="bf16", descending=True),
    exchanged("merges_odd", (17, 321), element="i32", numbered=False),
    exchanged("merges_of_columns", (257, 34), 0, element="f16"),
    exchanged("digits", (1, 1500), element="f32", descending=True),
    exchanged("digits_of_64_bits", (2, 900), element="i64"),
    exchanged("digits_with_a_tensor", (1, 777), numbered=False),
    exchanged("selection", (3, 1111), count=100, descending=True),
    exchanged("selection_of_16_bits", (1, 900), element="bf16", count=70),
    exchanged("insertion", (3, 1111), count=9, descending=True),
    exchanged("insertion_of_all", (3, 1111), count=9, descending=True, worst=True),
    exchanged("insertion_of_all_integers", (2, 130), element="i32", count=5, worst=True),
    exchanged("no_insertion_of_columns", (300, 5), 0, count=3, descending=True),
    exchanged("insertion_of_one", (5, 300), count=1, descending=True),
    exchanged("insertion_of_a_vector", (2, 3, 515), count=16),
    exchanged("insertion_of_16_bits", (1, 700), element="bf16", count=30),
    exchanged("insertion_of_integers", (2, 1030), element="i8", count=31),
    ranked("insertion_by_ranks", shape=(3, 400), count=3, descending=True),
    exchanged("selection_of_64_bits", (2, 800), element="i64", count=5, descending=True),
    exchanged("exchanged_first", (50, 40), element="f32", count=4, descending=True),
    exchanged("one_element", (5, 1)),
]
CASES = {one.name: one for one in BUILT}


NARROW = (
    *("network_f32", "network_bf16", "network_i64", "first_f16", "leading_dimension", "merges"),
    *("merges_of_16_bits", "digits", "digits_of_64_bits", "selection", "selection_of_16_bits"),
    *("insertion", "insertion_of_one", "insertion_of_16_bits", "insertion_of_integers"),
)
"""The cases that are run for smaller vectors than this machine's: half of them by default."""

RUNS = Runs(CASES, TARGETS, pipeline=PASSES, further=NARROW, every=2)


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_numerics(target, name):
    found = RUNS.outcome(target, name)
    assert dict(found.fired) == dict(found.case.fires), found.refused
    for number, expected in enumerate(found.case.reference(None)):
        fused, unfused = (given["x"][number] for given in (found.fused, found.unfused))
        assert fused.dtype == expected.dtype == unfused.dtype
        assert fused.tobytes() == expected.tobytes(), name
        assert fused.tobytes() == unfused.tobytes(), name


def test_code_for_arm():
    """Vectors of 16 bytes and 32 registers; compiled, not run."""
    arm = targets.parse("cpu:generic")
    flags = (*arm.flags, "--iree-llvmcpu-target-triple=aarch64-linux-gnu")
    arm = dataclasses.replace(arm, flags=flags)
    names = ("network_f32", "first_bf16", "merges", "digits", "selection")
    chosen = [CASES[name] for name in names]
    fired = Batch(cases=chosen, pipeline=PASSES, target=arm).compiled()
    assert fired == {one.name: dict(one.fires) for one in chosen}
