"""Names of the sides, see `rivals`; without PyTorch, for whoever only reads results."""

OURS = ("replayed", "kernels", "default")
"""Our variants; the first that runs is ours."""

NEEDED = ("replayed", "kernels")
"""Sides that every run has: the first is for blocks alone."""

PROGRAM = {"replayed": "kernels"}
"""Side -> whose program it runs, when that is another's."""

IMAGES_LAST = ("replayed", "kernels")
"""Programs that take and return images with channels last: IREE's code has no layout it likes."""

STOCK = ("stock", "stock_best")

PEERS = ("eager", "torch_compile", "max_autotune", "reduce_overhead", "xla")
"""Sides that compile on the device."""

SIDES = (*OURS, *STOCK, *PEERS)

BLOCK_ONLY = ("replayed", "reduce_overhead")

COPY = "copy"
"""No side: a copy of as many bytes as an operator moves, beside the sides in each round."""
