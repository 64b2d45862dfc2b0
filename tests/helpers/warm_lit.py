"""lit whose commands are forks of it: `python -m helpers.warm_lit ...` is `lit ...`.

Environment variables: tests whose names match the regular expression MLIRFUSE_TEST_COLD start the
tools as users do; kernels are kept in the folder MLIRFUSE_TEST_KERNELS and built by the server at
MLIRFUSE_TEST_BUILDER.
"""

import os
import re
import subprocess
from typing import Any

import lit.formats
import lit.main
import lit.TestRunner

from helpers import kernel_builds, warm_commands


class Subprocess:
    """The module `subprocess` with `Process` in place of `Popen`."""

    Popen = warm_commands.Process

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


def main() -> None:
    """Runs lit; its workers are forks of this process."""
    cold = re.compile(os.environ.get("MLIRFUSE_TEST_COLD", "$^"))
    execute = lit.formats.ShTest.execute

    def executed(self: Any, test: Any, config: Any) -> Any:
        warm_commands.Process.warm = not cold.search("/".join(test.path_in_suite))
        return execute(self, test, config)

    lit.formats.ShTest.execute = executed
    lit.TestRunner.subprocess = Subprocess()
    warm_commands.preload_tools()
    if "MLIRFUSE_TEST_BUILDER" in os.environ:
        builder = os.environ["MLIRFUSE_TEST_BUILDER"]
        kernel_builds.share(os.environ["MLIRFUSE_TEST_KERNELS"], lambda: builder)
    lit.main.main()


if __name__ == "__main__":
    main()
