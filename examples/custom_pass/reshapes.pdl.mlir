// A flattened tensor that is not read flat: the two reshapes cancel.
pdl.pattern @collapse_of_expand_rewrite : benefit(1) attributes {
  mlirfuse.summary = "A collapse that undoes an expand is dropped", mlirfuse.numerics = "exact"
} {
  %type = pdl.type
  %x = pdl.operand : %type
  %expand = pdl.operation "tensor.expand_shape"(%x : !pdl.value)
  %expanded = pdl.result 0 of %expand
  %root = pdl.operation "tensor.collapse_shape"(%expanded : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    pdl.replace %root with (%x : !pdl.value)
  }
}

// Scores and their softmax in one group, whatever the softmax's shape.
pdl.pattern @scores_softmax_fusion : benefit(1) attributes {
  mlirfuse.summary = "A batched matmul and the softmax of its result"
} {
  %type = pdl.type
  %operands = pdl.operands
  %scores = pdl.operation "linalg.batch_matmul"(%operands : !pdl.range<value>)
  %value = pdl.result 0 of %scores
  %out = pdl.operand
  %root = pdl.operation "linalg.softmax"(%value, %out : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root with "mlirfuse.group"(%scores, %root : !pdl.operation, !pdl.operation)
}
