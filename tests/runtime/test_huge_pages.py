"""Huge pages for memory that is mapped while a program is loaded."""

import mmap
import threading

import numpy as np
import pytest

import mlirfuse
from mlirfuse.runtime import huge_pages

LINES = """
5581a0000000-5581a0100000 r--p 00000000 fd:00 131 /usr/bin/python3
5581a0200000-5581a0300000 rw-p 00100000 fd:00 131 /usr/bin/python3
5581a1000000-5581a2000000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
7f0000900000-7f0000a00000 rw-p 00000000 00:00 0                          [anon:numbers]
7f0000b00000-7f0000c00000 rw-s 00000000 00:01 1027                       /dev/zero (deleted)
7f0000d00000-7f0000e00000 r--p 00000000 00:00 0
7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0                          [stack]
"""


def ended():
    """Waits for the threads that move memory."""
    for thread in threading.enumerate():
        if thread.name == huge_pages.THREAD:
            thread.join()


TEXT = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = arith.addf %x, %x : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
"""


@pytest.fixture
def advice(monkeypatch):
    """What Linux is asked for: first byte, size, what."""
    found = []
    monkeypatch.setattr(huge_pages, "_madvise", lambda: lambda *asked: found.append(asked))
    return found


def test_memory_of_the_process_alone_counts(tmp_path, monkeypatch):
    maps = tmp_path / "maps"
    maps.write_text(LINES)
    monkeypatch.setattr(huge_pages, "_MAPS", maps)
    assert huge_pages._mapped() == [
        (0x5581A1000000, 0x5581A2000000),
        (0x7F0000000000, 0x7F0000800000),
        (0x7F0000900000, 0x7F0000A00000),
    ]
    monkeypatch.setattr(huge_pages, "_MAPS", tmp_path / "none")
    assert huge_pages._mapped() == []


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ([], [(0, 9)], [(0, 9)]),
        ([(0, 9)], [(0, 9)], []),
        ([(0, 4)], [(0, 9)], [(4, 9)]),
        ([(4, 9)], [(0, 9)], [(0, 4)]),
        ([(2, 3), (5, 6)], [(0, 9)], [(0, 2), (3, 5), (6, 9)]),
        ([(0, 9)], [(2, 4)], []),
        ([(0, 2), (7, 9)], [(1, 3), (5, 8)], [(2, 3), (5, 7)]),
    ],
)
def test_new_parts(before, after, new):
    assert huge_pages._new(before, after) == new


def test_whole_huge_pages_of_what_was_mapped(advice):
    with huge_pages.of_new_memory(wanted=True):
        large = mmap.mmap(-1, 48 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ended()
    assert {what for _, _, what in advice} == {14, 25}
    assert all(first % huge_pages.SIZE == size % huge_pages.SIZE == 0 for first, size, _ in advice)
    assert sum(size for _, size, what in advice if what == 25) >= 44 << 20
    large.close()


def test_little_memory_stays_as_it_is(advice):
    with huge_pages.of_new_memory(wanted=True):
        pass
    assert advice == []


def test_a_system_without_huge_pages(tmp_path, monkeypatch):
    enabled = tmp_path / "enabled"
    for text, has in (("always madvise [never]\n", False), ("always [madvise] never\n", True)):
        enabled.write_text(text)
        monkeypatch.setattr(huge_pages, "_ENABLED", enabled)
        huge_pages._madvise.cache_clear()
        assert (huge_pages._madvise() is not None) == has
    monkeypatch.setattr(huge_pages, "_ENABLED", tmp_path / "none")
    huge_pages._madvise.cache_clear()
    assert huge_pages._madvise() is None
    huge_pages._madvise.cache_clear()


def test_an_error_is_passed_on(advice):
    with pytest.raises(ZeroDivisionError), huge_pages.of_new_memory(wanted=True):
        raise ZeroDivisionError
    assert advice == []


@pytest.mark.parametrize("disabled", ["", "huge_pages"])
def test_a_program_asks_for_them(monkeypatch, disabled):
    """While it is loaded on a CPU, unless the feature is off."""
    asked = []
    real = huge_pages.of_new_memory

    def noted(*, wanted):
        asked.append(wanted)
        return real(wanted=wanted)

    monkeypatch.setattr(huge_pages, "of_new_memory", noted)
    monkeypatch.setattr(huge_pages, "LEAST", 1024)  # less than the file of a program has
    module = mlirfuse.compile(TEXT, target="cpu", disable_feature=disabled)
    x = np.ones((4, 4), np.float32)
    np.testing.assert_array_equal(module(x), x + x)
    assert asked == [not disabled]
    monkeypatch.undo()
    monkeypatch.setattr(huge_pages, "of_new_memory", noted)
    np.testing.assert_array_equal(mlirfuse.compile(TEXT, target="cpu")(x), x + x)
    assert asked == [not disabled, False]


@pytest.mark.skipif(huge_pages._madvise() is None, reason="the system has no huge pages")
def test_memory_keeps_its_bytes():
    """Whether Linux moves it or not, also while others write to it."""
    with huge_pages.of_new_memory(wanted=True):
        large = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        array = np.frombuffer(large, np.int64)
        array[:] = np.arange(array.size)
    for _ in range(4):
        array += 1
    ended()
    assert np.array_equal(array, np.arange(array.size) + 4)
