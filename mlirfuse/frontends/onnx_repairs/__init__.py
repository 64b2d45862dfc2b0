"""Repairs of ONNX graphs before IREE's importer.

Operators that IREE 3.13 has no lowering for, or a wrong one, become operators that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlirfuse.frontends.onnx_repairs import (
    casts,
    convolution,
    detection,
    elementwise,
    indexing,
    loops,
    open_windows,
    pooling,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    shapes,
    spectral,
    unique,
    unsigned,
)
from mlirfuse.frontends.onnx_repairs.accumulation import ACCUMULATING, accumulate_wide
from mlirfuse.frontends.onnx_repairs.builder import Repair
from mlirfuse.frontends.onnx_repairs.contrib import REPAIRS as CONTRIB
from mlirfuse.frontends.onnx_repairs.functions import expand

__all__ = ["REPAIRS"]

_REDUCTIONS = (
    *("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"),
)

_TABLE: dict[str, Sequence[Repair]] = {
    "AffineGrid": (sampling.affine_grid,),
    "AveragePool": (open_windows.average_pool, pooling.average_pool),
    "BitCast": (elementwise.bit_cast,),
    "BitShift": (elementwise.bit_shift,),
    "Cast": (casts.cast,),
    "CastLike": (elementwise.cast_like,),
    "Col2Im": (convolution.col2im,),
    "Compress": (indexing.compress,),
    "Conv": (open_windows.convolution,),
    "ConvInteger": (quantization.conv_integer,),
    "ConvTranspose": (convolution.conv_transpose,),
    "CumProd": (reductions.scan,),
    "CumSum": (reductions.scan,),
    "DFT": (spectral.dft,),
    "DeformConv": (sampling.deform_conv,),
    "DepthToSpace": (shapes.depth_to_space,),
    "DequantizeLinear": (quantization.dequantize_linear,),
    "Det": (elementwise.det,),
    "Dropout": (elementwise.dropout,),
    "Expand": (shapes.expand,),
    "GRU": (recurrent.recurrent,),
    "Gather": (indexing.gather,),
    "GridSample": (sampling.grid_sample,),
    "LSTM": (recurrent.recurrent,),
    "Loop": (loops.loop,),
    "LpNormalization": (indexing.lp_normalization,),
    "LpPool": (pooling.lp_pool,),
    "MatMul": (elementwise.matmul,),
    "MatMulInteger": (quantization.matmul_integer,),
    "MaxPool": (open_windows.max_pool, pooling.max_pool),
    "MaxUnpool": (pooling.max_unpool,),
    "Mod": (elementwise.mod,),
    "NonMaxSuppression": (detection.non_max_suppression,),
    "PRelu": (indexing.prelu,),
    "Pad": (indexing.pad,),
    "Pow": (elementwise.power,),
    "QLinearMatMul": (quantization.qlinear_matmul,),
    "QuantizeLinear": (quantization.quantize_linear,),
    "RNN": (recurrent.recurrent,),
    "Range": (elementwise.range_,),
    "Reshape": (shapes.reshape,),
    "Resize": (resize.resize,),
    "ReverseSequence": (indexing.reverse_sequence,),
    "RoiAlign": (sampling.roi_align,),
    "STFT": (spectral.stft,),
    "Scan": (loops.scan,),
    "ScatterElements": (indexing.scatter_elements,),
    "Selu": (elementwise.selu,),
    "Slice": (indexing.slice_,),
    "Softsign": (elementwise.softsign,),
    "SpaceToDepth": (shapes.space_to_depth,),
    "Squeeze": (shapes.view,),
    "TensorScatter": (indexing.tensor_scatter,),
    "Tile": (shapes.tile,),
    "Unique": (unique.unique,),
    "Unsqueeze": (shapes.view,),
    "Upsample": (resize.upsample,),
    "ai.onnx.ml.ArrayFeatureExtractor": (indexing.feature_extractor,),
    "ai.onnx.ml.Binarizer": (indexing.binarizer,),
    **{f"Reduce{kind}": (reductions.reduction,) for kind in _REDUCTIONS},
}

_FUNCTIONS = (
    *("Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad"),
    *("ai.onnx.preview.FlexAttention", "LinearAttention", "Gelu", "MeanVarianceNormalization"),
    *("NegativeLogLikelihoodLoss", "RMSNormalization", "RotaryEmbedding"),
    *("SoftmaxCrossEntropyLoss", "SwiGLU", "Swish"),
)
"""Operators that IREE has no lowering for, or an incomplete one, and ONNX a function."""

_SIGNED = (*unsigned.ORDERED, *unsigned.ARITHMETIC)

REPAIRS: Mapping[str, Sequence[Repair]] = {
    kind: (
        *((accumulate_wide,) if kind in ACCUMULATING else ()),
        *((shapes.top_k,) if kind == "TopK" else ()),
        *((unsigned.signed,) if kind in _SIGNED else ()),
        *_TABLE.get(kind, ()),
        *((expand,) if kind in _FUNCTIONS else ()),
    )
    for kind in {*_TABLE, *ACCUMULATING, *_SIGNED, *_FUNCTIONS}
} | dict(CONTRIB)
"""Repairs by operator, in the order in which they are tried."""
