"""The preset `none`: IREE's own fusion and nothing of ours."""

PIPELINE: tuple[str, ...] = ()
