"""Typed questions about single ops: the one module that passes import for them.

The questions are defined in the modules below, which alone read raw attributes. An indexing map is
a tuple with one entry per tensor dimension: the index of the loop that addresses it, or None for a
constant zero. A map of another form reads as None.
"""

from __future__ import annotations

from mlirfuse.structured.ir import structured_ops, tensor_types
from mlirfuse.structured.ir.constants import (
    DATA,
    attribute_number,
    constant,
    initializer_value,
    is_constant_data,
)
from mlirfuse.structured.ir.functions import blocks, functions, symbol_name
from mlirfuse.structured.ir.locations import (
    OWN_NAME,
    described,
    is_position,
    location_name,
    source_frames,
    taken_apart,
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
    Sliced,
    inserted,
    is_box,
    padding_amounts,
    padding_value,
    reassociation,
    slice_of,
    sliced,
)
from mlirfuse.structured.ir.tensor_types import (
    DYNAMIC_SIZE,
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
    behind,
    block_of,
    computed,
    defining_op,
    external_operands,
    identity,
    in_region,
    is_pure,
    is_read,
    nested_ops,
    sources,
    users,
)

__all__ = [
    "DATA",
    "DYNAMIC_SIZE",
    "NAMED_CONTRACTIONS",
    "OWN_NAME",
    "REGION",
    "RESHAPES",
    "RETURN",
    "IndexMap",
    "Sliced",
    "ancestor_in",
    "attribute_number",
    "behind",
    "block_of",
    "blocks",
    "body",
    "clear_caches",
    "computed",
    "constant",
    "defining_op",
    "described",
    "element_bits",
    "element_type",
    "external_operands",
    "functions",
    "identity",
    "in_region",
    "indexing_maps",
    "initializer_value",
    "inits",
    "inputs",
    "inserted",
    "is_box",
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
    "loop_sizes",
    "moved_input",
    "multiplies_and_adds",
    "nested_ops",
    "num_bytes",
    "num_elements",
    "num_inputs",
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
    "slice_of",
    "sliced",
    "softmax_axis",
    "source_frames",
    "sources",
    "symbol_name",
    "taken_apart",
    "users",
]


def clear_caches() -> None:
    """Drops the decoded attributes and types, which keep their context alive."""
    structured_ops.clear_caches()
    tensor_types.clear_caches()
