"""The preset `norms_only`: normalizations and softmax become one dispatch, the rest is IREE's."""

PIPELINE: tuple[str, ...] = (
    "add_layer_norm_fusion",
    "layer_norm_fusion",
    "add_rms_norm_fusion",
    "rms_norm_fusion",
    "softmax_fusion",
)
