// RUN: %mlirfuse-opt %s --split-input-file --pipeline=decided_condition_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=decided_condition_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#s = affine_map<() -> ()>
#m = affine_map<(m) -> (m)>

// From: jnp.var(x, -1), by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @jax_guarded_divisor
// CHECK: %[[C:.*]] = arith.constant true
// CHECK-NOT: tensor.extract
// CHECK: arith.select %[[C]], %{{.*}}, %{{.*}} : f32
util.global private @count = dense<1.6e+01> : tensor<f32>
func.func @jax_guarded_divisor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %n = util.global.load immutable @count : tensor<f32>
  %e = tensor.empty() : tensor<i1>
  %t = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<f32>) outs(%e : tensor<i1>) {
  ^bb0(%i: f32, %o: i1):
    %g = arith.cmpf ogt, %i, %zero : f32
    linalg.yield %g : i1
  } -> tensor<i1>
  %c = tensor.extract %t[] : tensor<i1>
  %em = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%em : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %v = arith.select %c, %i, %nan : f32
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#s = affine_map<() -> ()>

// CHECK-LABEL: @false_bf16
// CHECK: %[[C:.*]] = arith.constant false
// CHECK: return %[[C]]
func.func @false_bf16() -> i1 {
  %n = arith.constant dense<-1.0> : tensor<bf16>
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<i1>
  %t = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<bf16>) outs(%e : tensor<i1>) {
  ^bb0(%i: bf16, %o: i1):
    %g = arith.cmpf oge, %i, %zero : bf16
    linalg.yield %g : i1
  } -> tensor<i1>
  %c = tensor.extract %t[] : tensor<i1>
  return %c : i1
}

// -----

#s = affine_map<() -> ()>

// The degrees of freedom come from the caller.
// CHECK-LABEL: @no_rewrite_argument
// CHECK: %[[C:.*]] = tensor.extract
// CHECK: return %[[C]]
// WHY: function @no_rewrite_argument
// WHY: constant_unverified (
// WHY: the compared values are not constants
func.func @no_rewrite_argument(%n: tensor<f32>) -> i1 {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<i1>
  %t = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<f32>) outs(%e : tensor<i1>) {
  ^bb0(%i: f32, %o: i1):
    %g = arith.cmpf ogt, %i, %zero : f32
    linalg.yield %g : i1
  } -> tensor<i1>
  %c = tensor.extract %t[] : tensor<i1>
  return %c : i1
}

// -----

#s = affine_map<() -> ()>

// In f16 the number is zero.
// CHECK-LABEL: @no_rewrite_rounded
// CHECK: %[[C:.*]] = tensor.extract
// CHECK: return %[[C]]
// WHY: function @no_rewrite_rounded
// WHY: the compared values are not constants
func.func @no_rewrite_rounded() -> i1 {
  %n = arith.constant dense<1.0e-20> : tensor<f32>
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<i1>
  %t = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<f32>) outs(%e : tensor<i1>) {
  ^bb0(%i: f32, %o: i1):
    %h = arith.truncf %i : f32 to f16
    %g = arith.cmpf ogt, %h, %zero : f16
    linalg.yield %g : i1
  } -> tensor<i1>
  %c = tensor.extract %t[] : tensor<i1>
  return %c : i1
}

// -----

// CHECK-LABEL: @no_rewrite_element_of_a_mask
// CHECK: %[[C:.*]] = tensor.extract
// CHECK: return %[[C]]
// WHY-NOT: function @no_rewrite_element_of_a_mask
func.func @no_rewrite_element_of_a_mask(%t: tensor<4xi1>) -> i1 {
  %c0 = arith.constant 0 : index
  %c = tensor.extract %t[%c0] : tensor<4xi1>
  return %c : i1
}

// -----

#m = affine_map<(m) -> (m)>

// As of a complex quotient whose numerator is a number: is it infinite, and the divisor finite?
// CHECK-LABEL: @mask_that_constants_decide
// CHECK: %[[N:.*]] = arith.constant dense<false> : tensor<4xi1>
// CHECK-NOT: arith.andi
// CHECK: return %[[N]]
func.func @mask_that_constants_decide(%x: tensor<4xi1>) -> tensor<4xi1> {
  %one = arith.constant 1.0 : f32
  %infinity = arith.constant 0x7F800000 : f32
  %ef = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<4xi1>
  %ones = linalg.fill ins(%one : f32) outs(%ef : tensor<4xf32>) -> tensor<4xf32>
  %t = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%ones : tensor<4xf32>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: f32, %o: i1):
    %g = arith.cmpf oeq, %i, %infinity : f32
    linalg.yield %g : i1
  } -> tensor<4xi1>
  %n = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]} ins(%t, %x : tensor<4xi1>, tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: i1, %j: i1, %o: i1):
    %g = arith.andi %i, %j : i1
    linalg.yield %g : i1
  } -> tensor<4xi1>
  return %n : tensor<4xi1>
}

// -----

#m = affine_map<(m) -> (m)>

// CHECK-LABEL: @mask_of_a_dynamic_size
// CHECK: %[[F:.*]] = arith.constant false
// CHECK: %[[N:.*]] = linalg.fill ins(%[[F]] : i1)
// CHECK: return %[[N]]
func.func @mask_of_a_dynamic_size(%x: tensor<?xi1>, %d: index) -> tensor<?xi1> {
  %false = arith.constant false
  %e = tensor.empty(%d) : tensor<?xi1>
  %f = linalg.fill ins(%false : i1) outs(%e : tensor<?xi1>) -> tensor<?xi1>
  %n = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]} ins(%f, %x : tensor<?xi1>, tensor<?xi1>) outs(%e : tensor<?xi1>) {
  ^bb0(%i: i1, %j: i1, %o: i1):
    %g = arith.andi %i, %j : i1
    linalg.yield %g : i1
  } -> tensor<?xi1>
  return %n : tensor<?xi1>
}

// -----

#m = affine_map<(m) -> (m)>

// CHECK-LABEL: @masks_of_two_constants
// CHECK: %[[N:.*]] = arith.constant dense<true> : tensor<4xi1>
// CHECK: %[[O:.*]] = arith.constant dense<true> : tensor<4xi1>
// CHECK: return %[[N]], %[[O]]
func.func @masks_of_two_constants(%x: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>) {
  %true = arith.constant true
  %false = arith.constant false
  %e = tensor.empty() : tensor<4xi1>
  %f = linalg.fill ins(%false : i1) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  %n = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%f : tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: i1, %o: i1):
    %g = arith.xori %i, %true : i1
    linalg.yield %g : i1
  } -> tensor<4xi1>
  %p = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]} ins(%x, %n : tensor<4xi1>, tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: i1, %j: i1, %o: i1):
    %g = arith.ori %i, %j : i1
    linalg.yield %g : i1
  } -> tensor<4xi1>
  return %n, %p : tensor<4xi1>, tensor<4xi1>
}

// -----

#m = affine_map<(m) -> (m)>

// The other operand decides; so does it where a comparison reads an argument.
// CHECK-LABEL: @no_rewrite_undecided_masks
// CHECK: arith.cmpf
// CHECK: %[[A:.*]] = linalg.generic
// CHECK: arith.andi
// CHECK: %[[X:.*]] = linalg.generic
// CHECK: arith.xori
// CHECK: return %[[A]], %[[X]]
func.func @no_rewrite_undecided_masks(%v: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>) {
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xi1>
  %x = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%v : tensor<4xf32>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: f32, %o: i1):
    %g = arith.cmpf ogt, %i, %zero : f32
    linalg.yield %g : i1
  } -> tensor<4xi1>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: i1, %o: i1):
    %g = arith.andi %i, %true : i1
    linalg.yield %g : i1
  } -> tensor<4xi1>
  %n = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<4xi1>) outs(%e : tensor<4xi1>) {
  ^bb0(%i: i1, %o: i1):
    %g = arith.xori %i, %true : i1
    linalg.yield %g : i1
  } -> tensor<4xi1>
  return %a, %n : tensor<4xi1>, tensor<4xi1>
}

// -----

// A branch that is always taken is no branch: PyTorch's recurrent layers ask for a first iteration.
// CHECK-LABEL: @taken
// CHECK-NOT: scf.if
// CHECK: math.absf
// CHECK-NOT: math.exp
// CHECK: return
#s = affine_map<() -> ()>
#m = affine_map<(m) -> (m)>
util.global private @steps = dense<9> : tensor<i64>
func.func @taken(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : i64
  %n = util.global.load immutable @steps : tensor<i64>
  %e = tensor.empty() : tensor<i1>
  %t = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<i64>) outs(%e : tensor<i1>) {
  ^bb0(%i: i64, %o: i1):
    %g = arith.cmpi sgt, %i, %zero : i64
    linalg.yield %g : i1
  } -> tensor<i1>
  %c = tensor.extract %t[] : tensor<i1>
  %em = tensor.empty() : tensor<4xf32>
  %r = scf.if %c -> (tensor<4xf32>) {
    %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%em : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.absf %i : f32
      linalg.yield %v : f32
    } -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  } else {
    %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%em : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.exp %i : f32
      linalg.yield %v : f32
    } -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
