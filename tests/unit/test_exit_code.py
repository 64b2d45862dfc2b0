"""How a process ended, in words."""

import io
import signal

import pytest

from mlirfuse.support import exit_code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGSEGV, "died with SIGSEGV"),
        (-signal.SIGKILL, "died with SIGKILL (killed from outside, often for want of memory)"),
        (-250, "died with signal 250"),
    ],
)
def test_codes(code, said):
    assert exit_code.how(code) == said


def test_the_last_line_of_a_traceback():
    text = "Traceback:\n  a line\n" * exit_code.TAIL_BYTES + "ValueError: no device\n\n"
    assert exit_code.last_line(io.BytesIO(text.encode())) == "ValueError: no device"
    assert exit_code.last_line(io.BytesIO()) == ""
