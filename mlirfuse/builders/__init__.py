"""Typed construction of the ops that rewrites create."""

from mlirfuse.builders.regions import (
    at_load_time,
    fence,
    form_region,
    fuse,
    make_room,
    own_copies,
    ungroup,
)
from mlirfuse.builders.tensors import (
    body_of,
    collapse,
    dimension,
    dynamic_sizes,
    empty,
    expand,
    fill,
    generic,
    map_attribute,
    merge,
    replace_collapsed,
    scalar,
    scalar_constant,
    tensor_type,
)
from mlirfuse.structured.expr.loop_domains import product

__all__ = [
    "at_load_time",
    "body_of",
    "collapse",
    "dimension",
    "dynamic_sizes",
    "empty",
    "expand",
    "fence",
    "fill",
    "form_region",
    "fuse",
    "generic",
    "make_room",
    "map_attribute",
    "merge",
    "own_copies",
    "product",
    "replace_collapsed",
    "scalar",
    "scalar_constant",
    "tensor_type",
    "ungroup",
]
