"""Public functions of JAX that have no case, and the reason."""

from __future__ import annotations

_STATIC = "its results are no arrays"
_CONSTANT = "no array goes in: a constant"
_HOST = "reads or writes files or memory of the host"
_COLLECTIVE = "needs several devices or a named axis"
_DATA_SHAPE = "the shape of the result depends on data"
_RAISES = "a class of several, or a helper that returns a function or a specification"
_RANDOM = "random numbers that no key determines"
_UNSET = "the values of the result are not defined"

LEFT_OUT: dict[str, str] = {
    f"{module}.{name}": reason
    for reason, module, names in (
        (
            _STATIC,
            "numpy",
            "array_repr array_str broadcast_shapes can_cast einsum_path get_printoptions "
            "iscomplexobj isdtype isrealobj isscalar issubdtype iterable ndim printoptions "
            "promote_types result_type set_printoptions shape size",
        ),
        (
            _CONSTANT,
            "numpy",
            "arange bartlett blackman diag_indices eye full hamming hanning identity indices "
            "kaiser ones tril_indices triu_indices zeros",
        ),
        (_HOST, "numpy", "from_dlpack frombuffer fromfile fromiter fromstring load save savez"),
        (_DATA_SHAPE, "numpy", "trim_zeros"),
        (_UNSET, "numpy", "empty empty_like"),
        (_CONSTANT, "numpy.fft", "fftfreq rfftfreq"),
        (
            _STATIC,
            "lax",
            "broadcast_shapes conv_dimension_numbers conv_general_permutations "
            "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple dtype "
            "padtype_to_pads reduce_window_shape_tuple shape_as_value",
        ),
        (
            _RAISES,
            "lax",
            "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike stage dce_sink "
            "scaled_dot ragged_dot_general",
        ),
        (_CONSTANT, "lax", "full"),
        (_UNSET, "lax", "empty"),
        (_RANDOM, "lax", "rng_uniform"),
        (
            _COLLECTIVE,
            "lax",
            "after_all all_gather all_to_all axis_index axis_size create_token pbroadcast pcast "
            "pmax pmean pmin ppermute precv psend pshuffle psum psum_scatter pswapaxes "
            "ragged_all_to_all with_sharding_constraint",
        ),
        (_RAISES, "nn", "get_scaled_dot_general_config scaled_dot_general scaled_matmul"),
        (_RAISES, "scipy.special", "bernoulli"),
        (_RAISES, "lax.linalg", "qdwh"),
    )
    for name in names.split()
}
