"""The M from which `dequant_fusion` writes dequantized weights out."""

import dataclasses

import pytest

from mlirfuse import targets
from mlirfuse.patterns.dequant_fusion import min_m

H100 = targets.parse("cuda:sm_90")


@pytest.mark.parametrize(("weight", "expected"), [("i4", 256), ("i8", 512)])
def test_the_m_that_was_measured_on_an_h100(weight, expected):
    assert min_m(weight, H100) == expected


def test_m_grows_with_arithmetic_and_falls_with_bandwidth():
    more_arithmetic = dataclasses.replace(H100, vector_rate=2 * H100.vector_rate)
    more_bandwidth = dataclasses.replace(H100, bandwidth=2 * H100.bandwidth)
    assert min_m("i4", more_arithmetic) == 512
    assert min_m("i4", more_bandwidth) == 128
