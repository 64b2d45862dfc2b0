"""The preset `default`: specific patterns first, generic ones on what they leave."""

PIPELINE: tuple[str, ...] = (
    # A norm that reads a residual add takes it along; the plain norm would leave the add alone.
    "add_layer_norm_fusion",
    "add_rms_norm_fusion",
    "layer_norm_fusion",
    "rms_norm_fusion",
)
