"""The scheduling policy of a thread that waits for those of IREE."""

import os

import numpy as np
import pytest

import mlirfuse
from mlirfuse.runtime import scheduling
from mlirfuse.runtime.scheduling import BatchScheduling

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="the system has no SCHED_BATCH"
)

TEXT = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = arith.addf %x, %x : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
"""


@pytest.fixture
def policies(monkeypatch):
    """The policies of the thread in calls of a program."""
    found = []
    real = scheduling.BatchScheduling.__exit__

    def leave(self, *args):
        found.append(os.sched_getscheduler(0))
        real(self, *args)

    monkeypatch.setattr(scheduling.BatchScheduling, "__exit__", leave)
    return found


def call(**switches):
    module = mlirfuse.compile(TEXT, target="cpu", **switches)
    x = np.ones((64, 64), np.float32)
    np.testing.assert_array_equal(module(x), x + x)


def test_the_policy_is_that_of_batches_in_a_call_alone(policies):
    before = os.sched_getscheduler(0)
    call()
    assert policies[0] == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before == os.SCHED_OTHER


def test_the_feature_turns_it_off(policies):
    call(disable_feature="batch_scheduling")
    assert policies == []


def test_it_is_restored_after_an_error():
    def fail():
        with BatchScheduling():
            assert os.sched_getscheduler(0) == os.SCHED_BATCH
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_another_policy_stays(monkeypatch):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_RR)
    monkeypatch.setattr(os, "sched_setscheduler", None)
    with BatchScheduling():
        pass


def test_a_system_that_refuses_is_asked_once(monkeypatch):
    asked = []

    def refuse(*args):
        asked.append(args)
        raise PermissionError

    monkeypatch.setattr(BatchScheduling, "_refused", False)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    for _ in range(2):
        with BatchScheduling():
            pass
    assert len(asked) == 1
