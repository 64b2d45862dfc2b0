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

// Four contiguous elements are kept, in vectors of eight: lanes of two rows, whose halves are combined.
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: vector.shuffle %[[SUM:.*]], %[[SUM]] [4, 5, 6, 7,
// CHECK: vector.maskedstore
// CHECK-LABEL: @few_lanes
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@columns_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (c, r)>
#row = affine_map<(r, c) -> (r)>
func.func @few_lanes(%x: tensor<320x4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<320x4xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  flow.return %s : tensor<4xf32>
  }
  return %g : tensor<4xf32>
}

// -----

// The loads of so few rows cost less than the combination of lanes.
// WHY-LABEL: @no_kernel_few_lanes
// WHY: row_vector_kernel: flow
// WHY-NEXT: few reductions of 4 contiguous elements
// CHECK-LABEL: @no_kernel_few_lanes
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (c, r)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_few_lanes(%x: tensor<9x4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %g = flow.dispatch.region -> (tensor<4xf32>) {
  %r = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9x4xf32>) outs(%f : tensor<4xf32>) {
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

// A boolean is accumulated in 32 bits, of which one is the result, and is a byte in memory.
// CHECK: arith.cmpf ogt
// CHECK: arith.extsi {{.*}} : vector<8xi1> to vector<8xi32>
// CHECK: arith.ori {{.*}} : vector<8xi32>
// CHECK: arith.trunci {{.*}} : vector<8xi32> to vector<8xi1>
// CHECK: memref.store {{.*}} : memref<24xi8>
// CHECK-LABEL: @result_of_bits
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @result_of_bits(%x: tensor<24x32xf32>) -> tensor<24xi1> {
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

// The magnitudes, which are a result, are stored by the loop that adds them.
// CHECK: %[[A:.*]] = math.absf {{.*}} : vector<8xf32>
// CHECK: arith.addf {{.*}}, %[[A]] : vector<8xf32>
// CHECK: vector.store %[[A]]
// CHECK-LABEL: @shared_operand
// CHECK: %[[Y:.*]]:2 = flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
// CHECK: return %[[Y]]#0, %[[Y]]#1
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @shared_operand(%x: tensor<24x40xf32>) -> (tensor<24x40xf32>, tensor<24xf32>) {
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

// The slice is read where it is.
// CHECK-LABEL: @slice
// CHECK-SAME: %[[W:.*]]: tensor<24x90xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@columns_{{.*}}(%[[W]]) {{.*}}tensor<24x90xf32>
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @slice(%w: tensor<24x90xf32>) -> tensor<40xf32> {
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

// Every second element is not: IREE reads it.
// CHECK-LABEL: @no_kernel_every_second
// CHECK-NOT: flow.dispatch
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_every_second(%w: tensor<24x90xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %x = tensor.extract_slice %w[0, 3] [24, 40] [1, 2] : tensor<24x90xf32> to tensor<24x40xf32>
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

// The differences wait for the sums of their columns: a second loop stores them.
// CHECK: %[[S:.*]] = scf.for {{.*}} -> (vector<8xf32>)
// CHECK: scf.for
// CHECK: arith.subf {{.*}}, %[[S]] : vector<8xf32>
// CHECK-LABEL: @columns_and_differences
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@columns_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @columns_and_differences(%x: tensor<24x40xf32>) -> (tensor<40xf32>, tensor<24x40xf32>) {
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
// CHECK: %[[S:.*]] = scf.for {{.*}} -> (vector<8xf32>)
// CHECK: scf.for
// CHECK: arith.subf {{.*}}, %[[S]] : vector<8xf32>
// CHECK-LABEL: @dependent_columns
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@columns_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @dependent_columns(%x: tensor<24x40xf32>) -> tensor<40xf32> {
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

// -----

// One row is divided among workgroups, each of which stores a sum; a second kernel adds the sums.
// CHECK: workgroup.id[0]
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: memref.store
// CHECK-LABEL: @divided_row
// CHECK: %[[S:.*]] = flow.dispatch @vector_kernel_{{.*}}::@rows_0_{{.*}}(%arg0)
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@rows_1_{{.*}}(%[[S]])
// CHECK: return %[[Y]]
#all = affine_map<(c) -> (c)>
#none = affine_map<(c) -> ()>
func.func @divided_row(%x: tensor<4000003xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction"]} ins(%x : tensor<4000003xf32>) outs(%f : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// The rows of a tall matrix are divided, too.
// CHECK-LABEL: @divided_columns
// CHECK: %[[S:.*]] = flow.dispatch @vector_kernel_{{.*}}::@columns_0_{{.*}}(%arg0)
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@columns_1_{{.*}}(%[[S]])
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
#last = affine_map<(r, c) -> (c)>
func.func @divided_columns(%x: tensor<100003x24xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100003x24xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

// -----

// The elements of a channel are a segment of each image: a loop over images around that of pixels.
// CHECK: scf.for {{.*}} -> (vector<8xf32>
// CHECK: scf.for {{.*}} -> (vector<8xf32>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK-LABEL: @segments
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
#id = affine_map<(c, n, p) -> (n, c, p)>
#row = affine_map<(c, n, p) -> (c)>
func.func @segments(%x: tensor<6x5x640xf32>) -> tensor<5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<6x5x640xf32>) outs(%f : tensor<5xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<5xf32>
  return %s : tensor<5xf32>
}

// -----

// The place of the least element: the index is a vector of adjacent numbers.
// CHECK: arith.addi {{.*}} : vector<8xindex>
// CHECK: arith.minsi {{.*}} : vector<8xi32>
// CHECK-LABEL: @index_of_column
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @index_of_column(%x: tensor<24x40xf32>) -> tensor<24xi32> {
  %zero = arith.constant 0.0 : f32
  %most = arith.constant 2147483647 : i32
  %e = tensor.empty() : tensor<24xi32>
  %f = linalg.fill ins(%most : i32) outs(%e : tensor<24xi32>) -> tensor<24xi32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<24x40xf32>) outs(%f : tensor<24xi32>) {
  ^bb0(%i: f32, %o: i32):
    %n = linalg.index 1 : index
    %m = arith.index_cast %n : index to i32
    %c = arith.cmpf ogt, %i, %zero : f32
    %k = arith.select %c, %m, %most : i32
    %t = arith.minsi %k, %o : i32
    linalg.yield %t : i32
  } -> tensor<24xi32>
  return %s : tensor<24xi32>
}

// -----

// Both reduced loops are one in memory, and the kernel has one index for them.
// WHY-LABEL: @no_kernel_index_of_one_of_two
// WHY: row_vector_kernel: linalg.generic
// WHY-NEXT: the kernel cannot compute an index of one of several contiguous loops
// CHECK-LABEL: @no_kernel_index_of_one_of_two
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, b, c) -> (r, b, c)>
#row = affine_map<(r, b, c) -> (r)>
func.func @no_kernel_index_of_one_of_two(%x: tensor<24x4x40xi32>) -> tensor<24xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<24xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<24xi32>) -> tensor<24xi32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<24x4x40xi32>) outs(%f : tensor<24xi32>) {
  ^bb0(%i: i32, %o: i32):
    %n = linalg.index 2 : index
    %m = arith.index_cast %n : index to i32
    %k = arith.muli %m, %i : i32
    %t = arith.addi %k, %o : i32
    linalg.yield %t : i32
  } -> tensor<24xi32>
  return %s : tensor<24xi32>
}

// -----

// The second operand has its rows last.
// WHY-LABEL: @no_kernel_transposed_operand
// WHY: row_vector_kernel: linalg.generic
// WHY-NEXT: the kernel cannot compute an operand whose columns are not contiguous
// CHECK-LABEL: @no_kernel_transposed_operand
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_transposed_operand(%x: tensor<24x40xf32>, %z: tensor<40x24xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #turned, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %z : tensor<24x40xf32>, tensor<40x24xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.subf %i, %j : f32
    %t = arith.addf %k, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

// -----

// The lanes of the first operand are rows of the second one.
// WHY-LABEL: @no_kernel_transposed_lanes
// WHY: row_vector_kernel: linalg.generic
// WHY-NEXT: the kernel cannot compute an operand whose lanes are not contiguous
// CHECK-LABEL: @no_kernel_transposed_lanes
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_transposed_lanes(%x: tensor<24x40xf32>, %z: tensor<40x24xf32>) -> tensor<40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#id, #turned, #last], iterator_types = ["reduction", "parallel"]} ins(%x, %z : tensor<24x40xf32>, tensor<40x24xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.subf %i, %j : f32
    %t = arith.addf %k, %o : f32
    linalg.yield %t : f32
  } -> tensor<40xf32>
  return %s : tensor<40xf32>
}

// -----

// The second operand has an element for several adjacent ones of the first.
// WHY-LABEL: @no_kernel_few_lanes_of_rows
// WHY: row_vector_kernel: linalg.generic
// WHY-NEXT: the kernel cannot compute reduced loops that are not contiguous with the kept ones
// CHECK-LABEL: @no_kernel_few_lanes_of_rows
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#first = affine_map<(r, c) -> (r)>
#last = affine_map<(r, c) -> (c)>
func.func @no_kernel_few_lanes_of_rows(%x: tensor<320x4xf32>, %z: tensor<320xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #first, #last], iterator_types = ["reduction", "parallel"]} ins(%x, %z : tensor<320x4xf32>, tensor<320xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %k = arith.subf %i, %j : f32
    %t = arith.addf %k, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// A reduced dimension of one element behind the columns: their vectors are contiguous.
// CHECK: %[[X:.*]] = vector.load {{.*}} : memref<960xf32>, vector<8xf32>
// CHECK: arith.addf {{.*}}, %[[X]] : vector<8xf32>
// CHECK-LABEL: @unit_column
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@rows_{{.*}}(%arg0)
#id = affine_map<(r, c, u) -> (r, c, u)>
#row = affine_map<(r, c, u) -> (r)>
func.func @unit_column(%x: tensor<24x40x1xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<24x40x1xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %o : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}
