"""Names of the sides, see `rivals`; without PyTorch, for whoever only reads results."""

OURS = ("kernels", "default")
"""Our variants; the first that runs is ours."""

IMAGES_LAST = ("kernels",)
"""Programs that take and return images with channels last: IREE's code has no layout it likes."""

STOCK = ("stock", "stock_best")

PEERS = ("eager", "torch_compile", "max_autotune", "reduce_overhead", "xla")
"""Sides that compile on the device."""

SIDES = (*OURS, *STOCK, *PEERS)

BLOCK_ONLY = ("reduce_overhead",)
