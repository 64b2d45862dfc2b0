"""Typed questions about single ops: the one module that passes import for them.

The questions are defined in the modules below, which alone read raw attributes. An indexing map is
a tuple with one entry per tensor dimension: the index of the loop that addresses it, or None for a
constant zero. A map of another form reads as None.
"""

from __future__ import annotations

from mlirfuse.structured.ir import structured_ops, tensor_types
from mlirfuse.structured.ir.constants import (
    CONSTANT_OPS,
    attribute_number,
    constant,
    initializer_value,
    is_constant_data,
)
from mlirfuse.structured.ir.functions import blocks, functions, symbol_name
from mlirfuse.structured.ir.locations import (
    INTERNAL_NAME_PREFIX,
    described,
    is_position,
    location_name,
    location_parts,
    source_frames,
)
from mlirfuse.structured.ir.structured_ops import (
    NAMED_CONTRACTIONS,
    IndexMap,
    body,
    indexing_maps,
    inits,
    inputs,
    is_contraction,
    is_elementwise,
    is_generic,
    is_projection,
    iterator_types,
    loop_sizes,
    moved_input,
    multiplies_and_adds,
    num_inputs,
    plain_maps,
    predicate,
    reads_index,
    reads_inits,
    scalar_names,
    softmax_axis,
)
from mlirfuse.structured.ir.tensor_ops import (
    RESHAPES,
    SliceParams,
    has_unit_strides,
    padding_amounts,
    padding_value,
    reassociation,
    slice_params,
    static_insert,
    static_slice,
)
from mlirfuse.structured.ir.tensor_types import (
    ASSUMED_DYNAMIC_SIZE,
    element_bits,
    element_type,
    is_float,
    num_bytes,
    num_elements,
    ranked,
    shape,
)
from mlirfuse.structured.ir.values import (
    REGION,
    RETURN,
    ancestor_in,
    block_of,
    defining_op,
    external_operands,
    identity,
    in_region,
    is_pure,
    is_read,
    nested_ops,
    operand_producers,
    strip_views,
    users,
    yielded_value,
)

__all__ = [
    "ASSUMED_DYNAMIC_SIZE",
    "CONSTANT_OPS",
    "INTERNAL_NAME_PREFIX",
    "NAMED_CONTRACTIONS",
    "REGION",
    "RESHAPES",
    "RETURN",
    "IndexMap",
    "SliceParams",
    "ancestor_in",
    "attribute_number",
    "block_of",
    "blocks",
    "body",
    "clear_caches",
    "constant",
    "defining_op",
    "described",
    "element_bits",
    "element_type",
    "external_operands",
    "functions",
    "has_unit_strides",
    "identity",
    "in_region",
    "indexing_maps",
    "initializer_value",
    "inits",
    "inputs",
    "is_constant_data",
    "is_contraction",
    "is_elementwise",
    "is_float",
    "is_generic",
    "is_position",
    "is_projection",
    "is_pure",
    "is_read",
    "iterator_types",
    "location_name",
    "location_parts",
    "loop_sizes",
    "moved_input",
    "multiplies_and_adds",
    "nested_ops",
    "num_bytes",
    "num_elements",
    "num_inputs",
    "operand_producers",
    "padding_amounts",
    "padding_value",
    "plain_maps",
    "predicate",
    "ranked",
    "reads_index",
    "reads_inits",
    "reassociation",
    "scalar_names",
    "shape",
    "slice_params",
    "softmax_axis",
    "source_frames",
    "static_insert",
    "static_slice",
    "strip_views",
    "symbol_name",
    "users",
    "yielded_value",
]


def clear_caches() -> None:
    """Drops the decoded attributes and types, which keep their context alive."""
    structured_ops.clear_caches()
    tensor_types.clear_caches()
