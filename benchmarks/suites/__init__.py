"""The suites by name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.suites import compile_time, main
from benchmarks.suites.suite import Suite

SUITES: Mapping[str, Suite] = {"main": main.SUITE, "compile_time": compile_time.SUITE}
