"""Names of the systems that `peers` runs; importable without PyTorch, for readers of results."""

OURS = ("replayed", "kernels", "default")
"""Our variants; `ours` is the first that runs."""

NEEDED = ("replayed", "kernels")
"""Systems of every run; the first runs blocks alone."""

PROGRAM = {"replayed": "kernels"}
"""System -> the system whose program it runs, where it is another one."""

CHANNELS_LAST_PROGRAMS = ("replayed", "kernels")
"""Systems whose programs take and return images with channels last; IREE prefers no layout."""

STOCK = ("stock", "stock_best")
"""Baselines: IREE without our passes."""

PEERS = ("eager", "torch_compile", "max_autotune", "reduce_overhead", "xla")
"""Systems that compile on the device."""

SYSTEMS = (*OURS, *STOCK, *PEERS)

BLOCK_ONLY = ("replayed", "reduce_overhead")
"""Systems of blocks alone."""

COPY = "copy"
"""Name of a copy of as many bytes as an operator moves, timed in each round like a system."""
