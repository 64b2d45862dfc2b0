"""A process that dies as one whose device fails: run as a module."""

import os
import signal
import sys

if __name__ == "__main__":
    print("loading\nCUDA_ERROR_ILLEGAL_ADDRESS\n", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
