// Passes for the examples in this folder: each forms one group of two ops.

pdl.pattern @exp_add_fusion : benefit(1) attributes {
  mlirfuse.summary = "An exponential and the sum that reads it first"
} {
  %x = pdl.operand
  %y = pdl.operand
  %exp = pdl.operation "math.exp"(%x : !pdl.value)
  %value = pdl.result 0 of %exp
  %root = pdl.operation "arith.addf"(%value, %y : !pdl.value, !pdl.value)
  pdl.rewrite %root with "mlirfuse.group"(%exp, %root : !pdl.operation, !pdl.operation)
}

pdl.pattern @exp_abs_fusion : benefit(1) attributes {
  mlirfuse.summary = "An exponential and the absolute value that reads it"
} {
  %x = pdl.operand
  %exp = pdl.operation "math.exp"(%x : !pdl.value)
  %value = pdl.result 0 of %exp
  %root = pdl.operation "math.absf"(%value : !pdl.value)
  pdl.rewrite %root with "mlirfuse.group"(%exp, %root : !pdl.operation, !pdl.operation)
}

pdl.pattern @exp_reduce_fusion : benefit(1) attributes {
  mlirfuse.summary = "An exponential and the reduction that reads it"
} {
  %x = pdl.operand
  %init = pdl.operand
  %exp = pdl.operation "math.exp"(%x : !pdl.value)
  %value = pdl.result 0 of %exp
  %root = pdl.operation "linalg.reduce"(%value, %init : !pdl.value, !pdl.value)
  pdl.rewrite %root with "mlirfuse.group"(%exp, %root : !pdl.operation, !pdl.operation)
}

pdl.pattern @concat_exp_fusion : benefit(1) attributes {
  mlirfuse.summary = "A concatenation and the exponential that reads it"
} {
  %parts = pdl.operands
  %concat = pdl.operation "tensor.concat"(%parts : !pdl.range<value>)
  %value = pdl.result 0 of %concat
  %root = pdl.operation "math.exp"(%value : !pdl.value)
  pdl.rewrite %root with "mlirfuse.group"(%concat, %root : !pdl.operation, !pdl.operation)
}

pdl.pattern @softmax_matmul_fusion : benefit(1) attributes {
  mlirfuse.summary = "A softmax and the product that reads it"
} {
  %x = pdl.operand
  %e = pdl.operand
  %w = pdl.operand
  %f = pdl.operand
  %softmax = pdl.operation "linalg.softmax"(%x, %e : !pdl.value, !pdl.value)
  %value = pdl.result 0 of %softmax
  %root = pdl.operation "linalg.matmul"(%value, %w, %f : !pdl.value, !pdl.value, !pdl.value)
  pdl.rewrite %root with "mlirfuse.group"(%softmax, %root : !pdl.operation, !pdl.operation)
}
