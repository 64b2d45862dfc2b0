"""The tables of the suite of JAX's functions."""

import pytest

pytest.importorskip("jax")

from benchmarks.conformance.jax_functions import FORMS, JaxFunctions, public_functions
from benchmarks.conformance.jax_left_out import LEFT_OUT


def test_every_public_function_is_in_one_table():
    functions = {name for name in FORMS if not name.startswith("programs.")}
    assert not functions & LEFT_OUT.keys()
    assert functions | LEFT_OUT.keys() == set(public_functions())


def test_cases_are_the_same_in_each_run_and_merge():
    suite = JaxFunctions()
    cases, again = suite.cases("lax.add"), suite.cases("lax.add")
    assert [case.name for case in cases] == [case.name for case in again]
    assert {case.name.split("/")[1] for case in cases} >= {"float32", "bfloat16", "uint8"}
    for one, other in zip(cases, again, strict=True):
        assert all(
            (a == b).all() or (a != a).any()
            for a, b in zip(one.arguments, other.arguments, strict=True)
        )
    program = suite.program(cases[:3])
    assert len(program.arguments) == 6
    assert len(program.model(*program.example_inputs)) == 3


def test_functions_of_64_bits_are_exported():
    suite = JaxFunctions()
    cases = suite.cases("x64.lax.add")
    assert {case.expected[0].dtype.name for case in cases} == {"float64", "int64", "complex128"}
    assert suite.program(cases).example_inputs is None
