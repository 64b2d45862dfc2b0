// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=softmax_fusion,row_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=softmax_fusion,row_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=softmax_fusion,row_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// Rows of 21 elements are two vectors of eight and a masked one. The exponentials are computed in one
// loop, kept on the stack, and divided by their sum in the next.
// CHECK: vector.constant_mask [5] : vector<8xi1>
// CHECK: memref.alloca
// CHECK-SAME: xf32>
// CHECK: arith.maximumf {{.*}} : vector<8xf32>
// CHECK: math.exp
// CHECK: vector.store %{{.*}}, %{{alloca.*}}[
// CHECK: arith.divf
// CHECK-NOT: math.exp
// CHECK: vector.maskedstore
// CHECK-LABEL: @softmax
// CHECK-SAME: %[[X:.*]]: tensor<40x21xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%[[X]])
// CHECK: return %[[Y]]
func.func @softmax(%x: tensor<40x21xf32>) -> tensor<40x21xf32> {
  %e = tensor.empty() : tensor<40x21xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<40x21xf32>) outs(%e : tensor<40x21xf32>) -> tensor<40x21xf32>
  return %y : tensor<40x21xf32>
}

// -----

// The sum of two tensors is a result: the first loop stores it, and the second one loads it again.
// CHECK: %[[H:.*]] = hal.interface.binding.subspan {{.*}} binding(2)
// CHECK: %[[Y:.*]] = hal.interface.binding.subspan {{.*}} binding(3)
// CHECK: %[[SUM:.*]] = arith.addf {{.*}} : vector<8xf32>
// CHECK: vector.store %[[SUM]], %[[H]]
// CHECK: %[[AGAIN:.*]] = vector.load %[[H]]
// CHECK: %[[OUT:.*]] = arith.mulf %[[AGAIN]], {{.*}} : vector<8xf32>
// CHECK: vector.store %[[OUT]], %[[Y]]
// CHECK-LABEL: @sum_and_its_mean
// CHECK-SAME: %[[A:.*]]: tensor<4x32xf32>, %[[B:.*]]: tensor<4x32xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%[[A]], %[[B]])
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @sum_and_its_mean(%a: tensor<4x32xf32>, %b: tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:2 = flow.dispatch.region -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  %e = tensor.empty() : tensor<4x32xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x32xf32>, tensor<4x32xf32>) outs(%e : tensor<4x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.addf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<4x32xf32>
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %s : tensor<4x32xf32>, tensor<4xf32>) outs(%e : tensor<4x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.mulf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<4x32xf32>
  flow.return %h, %y : tensor<4x32xf32>, tensor<4x32xf32>
  }
  return %g#0, %g#1 : tensor<4x32xf32>, tensor<4x32xf32>
}

// -----

// Lanes are columns of the matrix, of which there are too few.
// WHY-LABEL: @no_kernel_few_lanes
// WHY: row_vector_kernel: flow
// WHY-NEXT: 4 contiguous elements, fewer than 8
// CHECK-LABEL: @no_kernel_few_lanes
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (c, r)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_few_lanes(%x: tensor<32x4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<32x4xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  flow.return %s : tensor<4xf32>
  }
  return %g : tensor<4xf32>
}

// -----

// WHY-LABEL: @no_kernel_short_rows
// WHY: row_vector_kernel: flow
// WHY-NEXT: rows of 15 columns, fewer than 16
// CHECK-LABEL: @no_kernel_short_rows
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_short_rows(%x: tensor<4x15xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x15xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  flow.return %s : tensor<4xf32>
  }
  return %g : tensor<4xf32>
}

// -----

// WHY-LABEL: @no_kernel_other_init
// WHY: row_vector_kernel: flow
// WHY-NEXT: which is no constant
// CHECK-LABEL: @no_kernel_other_init
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_other_init(%x: tensor<4x32xf32>, %f: tensor<4xf32>) -> tensor<4xf32> {
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  flow.return %s : tensor<4xf32>
  }
  return %g : tensor<4xf32>
}

// -----

// The accumulator is read twice.
// WHY-LABEL: @no_kernel_other_update
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute the reduction of
// CHECK-LABEL: @no_kernel_other_update
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_other_update(%x: tensor<4x32xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x32xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %u = arith.mulf %i, %o : f32
    %t = arith.addf %u, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  flow.return %s : tensor<4xf32>
  }
  return %g : tensor<4xf32>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_rows
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel's sizes are static
// CHECK-LABEL: @no_kernel_dynamic_rows
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_dynamic_rows(%x: tensor<?x32xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region[%n] -> (tensor<?xf32>{%n}) {
  %r = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x32xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  flow.return %s : tensor<?xf32>
  }
  return %g : tensor<?xf32>
}

// -----

// The second sum reduces the rows of the first.
// WHY-LABEL: @no_kernel_both_axes
// WHY: row_vector_kernel: flow
// WHY-NEXT: the ops do not share rows and columns
// CHECK-LABEL: @no_kernel_both_axes
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#column = affine_map<(r, c) -> (c)>
func.func @no_kernel_both_axes(%x: tensor<24x32xf32>) -> (tensor<24xf32>, tensor<32xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:2 = flow.dispatch.region -> (tensor<24xf32>, tensor<32xf32>) {
  %r = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<24x32xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  %q = tensor.empty() : tensor<32xf32>
  %h = linalg.fill ins(%zero : f32) outs(%q : tensor<32xf32>) -> tensor<32xf32>
  %u = linalg.generic {indexing_maps = [#id, #row, #column], iterator_types = ["reduction", "parallel"]} ins(%x, %s : tensor<24x32xf32>, tensor<24xf32>) outs(%h : tensor<32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.mulf %i, %j : f32
    %l = arith.subf %k, %i : f32
    %t = arith.addf %l, %o : f32
    linalg.yield %t : f32
  } -> tensor<32xf32>
  flow.return %s, %u : tensor<24xf32>, tensor<32xf32>
  }
  return %g#0, %g#1 : tensor<24xf32>, tensor<32xf32>
}

// -----

// WHY-LABEL: @no_kernel_result_of_columns
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute a result without the rows
// CHECK-LABEL: @no_kernel_result_of_columns
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#column = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>
func.func @no_kernel_result_of_columns(%x: tensor<24x32xf32>, %v: tensor<32xf32>) -> (tensor<24xf32>, tensor<32xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:2 = flow.dispatch.region -> (tensor<24xf32>, tensor<32xf32>) {
  %q = tensor.empty() : tensor<32xf32>
  %w = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%v : tensor<32xf32>) outs(%q : tensor<32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.negf %i : f32
    linalg.yield %t : f32
  } -> tensor<32xf32>
  %r = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #column, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<24x32xf32>, tensor<32xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.subf %i, %j : f32
    %t = arith.addf %k, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  flow.return %s, %w : tensor<24xf32>, tensor<32xf32>
  }
  return %g#0, %g#1 : tensor<24xf32>, tensor<32xf32>
}

// -----

// WHY-LABEL: @no_kernel_result_of_bits
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute a result of i1
// CHECK-LABEL: @no_kernel_result_of_bits
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_result_of_bits(%x: tensor<24x32xf32>) -> tensor<24xi1> {
  %false = arith.constant false
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<24xi1>) {
  %r = tensor.empty() : tensor<24xi1>
  %f = linalg.fill ins(%false : i1) outs(%r : tensor<24xi1>) -> tensor<24xi1>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<24x32xf32>) outs(%f : tensor<24xi1>) {
  ^bb0(%i: f32, %o: i1):
    %k = arith.cmpf ogt, %i, %zero : f32
    %t = arith.ori %k, %o : i1
    linalg.yield %t : i1
  } -> tensor<24xi1>
  flow.return %s : tensor<24xi1>
  }
  return %g : tensor<24xi1>
}

// -----

// WHY-LABEL: @no_kernel_padding
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel has no tensor.pad
// CHECK-LABEL: @no_kernel_padding
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_padding(%x: tensor<24x30xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<24xf32>) {
  %p = tensor.pad %x low[0, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<24x30xf32> to tensor<24x32xf32>
  %r = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<24x32xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  flow.return %s : tensor<24xf32>
  }
  return %g : tensor<24xf32>
}

// -----

// Rows that are multiples of the lanes: softmax_fusion has tiled them for IREE.
// WHY-LABEL: @no_kernel_softmax_in_tiles
// WHY: row_vector_kernel: flow
// WHY-NEXT: IREE's tiles of this softmax are as fast
// CHECK-LABEL: @no_kernel_softmax_in_tiles
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_softmax_in_tiles(%x: tensor<40x64xf32>) -> tensor<40x64xf32> {
  %e = tensor.empty() : tensor<40x64xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<40x64xf32>) outs(%e : tensor<40x64xf32>) -> tensor<40x64xf32>
  return %y : tensor<40x64xf32>
}

// -----

// A sum in no group: its rows are five vectors.
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK-LABEL: @rows_alone
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @rows_alone(%x: tensor<24x40xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<24x40xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

// -----

// Lanes are columns: no lanes are combined. The magnitudes, and the scale of the sums, are computed
// by the kernel.
// CHECK: math.absf {{.*}} : vector<8xf32>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK-NOT: vector.shuffle
// CHECK: arith.mulf {{.*}} : vector<8xf32>
// CHECK: vector.store
// CHECK-LABEL: @columns_of_magnitudes
// CHECK-SAME: %[[X:.*]]: tensor<24x40xf32>, %[[V:.*]]: tensor<40xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@columns_{{.*}}(%[[X]], %[[V]])
#one = affine_map<(c) -> (c)>
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @columns_of_magnitudes(%x: tensor<24x40xf32>, %v: tensor<40xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %m = tensor.empty() : tensor<24x40xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<24x40xf32>) outs(%m : tensor<24x40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = math.absf %i : f32
    linalg.yield %t : f32
  } -> tensor<24x40xf32>
  %s = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]} ins(%a : tensor<24x40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  %y = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]} ins(%s, %v : tensor<40xf32>, tensor<40xf32>) outs(%e : tensor<40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.mulf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  return %y : tensor<40xf32>
}

// -----

// IREE computes the magnitudes, which are a result, with the sums.
// CHECK-LABEL: @no_kernel_shared_operand
// CHECK-NOT: flow.dispatch
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_shared_operand(%x: tensor<24x40xf32>) -> (tensor<24x40xf32>, tensor<24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %m = tensor.empty() : tensor<24x40xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<24x40xf32>) outs(%m : tensor<24x40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = math.absf %i : f32
    linalg.yield %t : f32
  } -> tensor<24x40xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<24x40xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  return %a, %s : tensor<24x40xf32>, tensor<24xf32>
}

// -----

// IREE reads the slice where it is.
// CHECK-LABEL: @no_kernel_slice
// CHECK-NOT: flow.dispatch
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_slice(%w: tensor<24x90xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %x = tensor.extract_slice %w[0, 3] [24, 40] [1, 1] : tensor<24x90xf32> to tensor<24x40xf32>
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<24x40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  return %s : tensor<40xf32>
}

// -----

// WHY-LABEL: @no_kernel_beside_columns
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute a result of all elements beside sums of columns
// CHECK-LABEL: @no_kernel_beside_columns
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_beside_columns(%x: tensor<24x40xf32>) -> (tensor<40xf32>, tensor<24x40xf32>) {
  %zero = arith.constant 0.0 : f32
  %g:2 = flow.dispatch.region -> (tensor<40xf32>, tensor<24x40xf32>) {
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<24x40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  %m = tensor.empty() : tensor<24x40xf32>
  %a = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<24x40xf32>, tensor<40xf32>) outs(%m : tensor<24x40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.subf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<24x40xf32>
  flow.return %s, %a : tensor<40xf32>, tensor<24x40xf32>
  }
  return %g#0, %g#1 : tensor<40xf32>, tensor<24x40xf32>
}

// -----

// The second sum waits for the first one.
// WHY-LABEL: @no_kernel_dependent_columns
// WHY: row_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute a value that is read along other axes, or before its reduction
// CHECK-LABEL: @no_kernel_dependent_columns
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_dependent_columns(%x: tensor<24x40xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<40xf32>) {
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<24x40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  %u = linalg.generic {indexing_maps = [#id, #last, #last], iterator_types = ["reduction", "parallel"]} ins(%x, %s : tensor<24x40xf32>, tensor<40xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %d = arith.subf %i, %j : f32
    %t = arith.addf %d, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  flow.return %u : tensor<40xf32>
  }
  return %g : tensor<40xf32>
}
