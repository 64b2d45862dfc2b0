"""Small programs on the CPU are called on the faster of two devices."""

import copy
import dataclasses
import logging
import pickle
import threading

import numpy as np
import pytest

import mlirfuse
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import inline_calls
from mlirfuse.runtime.inline_calls import INLINE, THREADS, TIMED_CALLS, UNTIMED_CALLS, Trial
from mlirfuse.runtime.session import Session

CALLS = UNTIMED_CALLS + TIMED_CALLS
TEXT = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = math.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""
X = np.arange(32, dtype=np.float32).reshape(4, 8) / 32


class Fake:
    """A session whose calls take a time."""

    source = "fake"

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.calls = clock, [*seconds], 0

    def call(self, values, kind):
        self.clock.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1
        return [self]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def trial(threads, inline):
    clock = Clock()
    first, second = Fake(clock, threads), Fake(clock, inline)
    return Trial(first, lambda: second, clock), first, second


@pytest.mark.parametrize(("inline", "is_chosen"), [(30e-6, True), (90e-6, False)])
def test_the_faster_device_is_chosen(inline, is_chosen):
    """First calls, which take long, do not count."""
    found, first, second = trial([1.0, 1.0, 60e-6], [1.0, 1.0, inline])
    for _ in range(2 * CALLS):
        assert found.chosen is None
        found.call([], "numpy")
    assert found.chosen is (second if is_chosen else first)
    assert (first.calls, second.calls) == (CALLS, CALLS)
    assert found.call([], "numpy") == [found.chosen]


def test_a_long_program_is_not_loaded_twice():
    found, first, _ = trial([2 * inline_calls.MAX_SECONDS], [])
    found._open_inline = None
    for _ in range(CALLS):
        found.call([], "numpy")
    assert found.chosen is first


def test_a_trial_of_much_longer_calls_ends_early():
    found, first, second = trial([60e-6], [60e-6 * (inline_calls.MAX_RATIO + 1)])
    for _ in range(CALLS + UNTIMED_CALLS + 1):
        assert found.chosen is None
        found.call([], "numpy")
    assert found.chosen is first
    assert second.calls == UNTIMED_CALLS + 1


def test_calls_of_other_threads_do_not_wait_for_the_trial():
    found, first, _ = trial([60e-6], [30e-6])
    with found._lock:
        other = threading.Thread(target=found.call, args=([], "numpy"))
        other.start()
        other.join()
    assert first.calls == 1
    assert not found._seconds[THREADS]


def devices(program):
    """The devices that calls ran on, in their order."""
    found = []
    for _ in range(2 * CALLS + 1):
        assert np.allclose(program(X), np.exp(X))
        found.append(program._sessions.current.uri)
    return found


def test_a_small_program_is_called_on_both(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(inline_calls, "MAX_SECONDS", 60.0)
    program = mlirfuse.compile(TEXT, target="cpu")
    with caplog.at_level(logging.DEBUG, "mlirfuse.runtime"):
        assert devices(program)[-1] in (THREADS, INLINE)
    assert f"us on {THREADS} and " in caplog.text
    assert program._sessions.trial is None
    program.save(tmp_path / "small.vmfb")
    for other in (
        mlirfuse.load(tmp_path / "small.vmfb"),
        copy.copy(program),
        pickle.loads(pickle.dumps(program)),
    ):
        other(X)
        assert other._sessions.trial is not None


def test_a_device_that_was_asked_for_is_kept(tmp_path):
    program = mlirfuse.compile(TEXT, target="cpu")
    program.save(tmp_path / "small.vmfb")
    for other in (
        program.on(THREADS),
        copy.copy(program.on(THREADS)),
        pickle.loads(pickle.dumps(program.on(THREADS))),
        mlirfuse.load(tmp_path / "small.vmfb", device=THREADS),
        mlirfuse.compile(TEXT, target="cpu", disable_feature=["inline-calls"]),
    ):
        other(X)
        assert other._sessions.trial is None
        assert other._sessions.current.uri == THREADS


def test_state_is_not_kept_twice():
    manifest = mlirfuse.compile(TEXT, target="cpu")._manifest
    assert inline_calls.tries(manifest)
    assert not inline_calls.tries(dataclasses.replace(manifest, has_state=True))
    assert not inline_calls.tries(dataclasses.replace(manifest, has_state=None))
    assert not inline_calls.tries(dataclasses.replace(manifest, device="cuda"))


@pytest.mark.parametrize("failing", [1, 2 * CALLS])
def test_a_program_that_loses_its_allocations_goes_on_with_one_thread(monkeypatch, failing):
    """In its first call, or in a later one of a signature that is prepared."""
    program = mlirfuse.compile(TEXT)
    monkeypatch.setattr(inline_calls, "MAX_SECONDS", 0.0)  # the trial keeps several threads
    threads = program._sessions.open()
    invoked, calls = Session.invoke, []

    def invoke(session, arguments):
        if session is threads:
            calls.append(session)
            if len(calls) >= failing:
                raise RuntimeError(f"FAILED_PRECONDITION; {inline_calls.UNCOMMITTED}; ensure")
        return invoked(session, arguments)

    monkeypatch.setattr(Session, "invoke", invoke)
    for _ in range(failing + 2):
        np.testing.assert_allclose(program(X), np.exp(X), rtol=1e-6)
    assert len(calls) == failing


def test_a_device_that_was_asked_for_raises_what_it_raised(monkeypatch):
    program = mlirfuse.compile(TEXT).on(THREADS)

    def invoke(session, arguments):
        raise RuntimeError(f"FAILED_PRECONDITION; {inline_calls.UNCOMMITTED}; ensure")

    monkeypatch.setattr(Session, "invoke", invoke)
    with pytest.raises(MlirfuseError, match="not been committed"):
        program(X)
