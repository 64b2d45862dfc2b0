"""A process with the device, whose second program fails at its turns: run as a module."""

import json
import os
import signal
import sys

if __name__ == "__main__":
    sys.stdin.readline()
    print("{}\n{}\n{}", flush=True)
    for line in sys.stdin:
        if line.strip() == "1":
            if os.environ["FAILING_TURNS"] == "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            print(json.dumps({"said": "the device is lost"}), flush=True)
        else:
            print(json.dumps({"seconds": [0.1]}), flush=True)
