// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=sort_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline='sort_vector_kernel{partial-orders=false}' | FileCheck %s --check-prefix=TOTAL
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=sort_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=sort_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// Rows of f32 with the indices of six elements in 64 bits, four in a vector: both zeros have the key
// zero, and NaN the greatest one.
// CHECK: vector.gather
// CHECK: arith.bitcast {{.*}} : vector<4xf32> to vector<4xi32>
// CHECK: arith.minui {{.*}} : vector<4xi64>
// CHECK: arith.maxui {{.*}} : vector<4xi64>
// CHECK-LABEL: @values
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
// CHECK-NEXT: return %[[Y]]
util.func public @values(%arg: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant 0 : i32
  %n = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %p = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %be = tensor.empty() : tensor<4x6x6xi1>
  %before = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1)>, affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%arg, %arg, %n, %n : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xi32>, tensor<6xi32>)
      outs(%be : tensor<4x6x6xi1>) {
  ^bb0(%x: f32, %y: f32, %j: i32, %k: i32, %o: i1):
    %lt = arith.cmpf olt, %y, %x : f32
    %gt = arith.cmpf ogt, %y, %x : f32
    %nx = arith.cmpf une, %x, %x : f32
    %ny = arith.cmpf une, %y, %y : f32
    %mx = arith.xori %nx, %true : i1
    %my = arith.xori %ny, %true : i1
    %nl = arith.andi %nx, %my : i1
    %ng = arith.andi %ny, %mx : i1
    %ll = arith.ori %lt, %nl : i1
    %gg = arith.ori %gt, %ng : i1
    %le = arith.xori %gg, %true : i1
    %e = arith.cmpi slt, %k, %j : i32
    %s = arith.select %e, %le, %ll : i1
    linalg.yield %s : i1
  } -> tensor<4x6x6xi1>
  %we = tensor.empty() : tensor<4x6x6xi32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%before : tensor<4x6x6xi1>) outs(%we : tensor<4x6x6xi32>) {
  ^bb0(%a: i1, %o: i32):
    %c = arith.extui %a : i1 to i32
    linalg.yield %c : i32
  } -> tensor<4x6x6xi32>
  %re = tensor.empty() : tensor<4x6xi32>
  %rf = linalg.fill ins(%init : i32) outs(%re : tensor<4x6xi32>) -> tensor<4x6xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x6x6xi32>) outs(%rf : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  %he = tensor.empty() : tensor<4x6x6xi32>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %p, %n : tensor<4x6xi32>, tensor<6xi32>, tensor<6xi32>)
      outs(%he : tensor<4x6x6xi32>) {
  ^bb0(%a: i32, %b: i32, %i: i32, %o: i32):
    %c = arith.cmpi eq, %a, %b : i32
    %d = arith.select %c, %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<4x6x6xi32>
  %ie = tensor.empty() : tensor<4x6xi32>
  %if = linalg.fill ins(%init : i32) outs(%ie : tensor<4x6xi32>) -> tensor<4x6xi32>
  %i = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h : tensor<4x6x6xi32>) outs(%if : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  %ve = tensor.empty() : tensor<4x6xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4x6xi32>) outs(%ve : tensor<4x6xf32>) {
  ^bb0(%n0: i32, %o: f32):
    %l = linalg.index 0 : index
    %c = arith.index_cast %n0 : i32 to index
    %e = tensor.extract %arg[%l, %c] : tensor<4x6xf32>
    linalg.yield %e : f32
  } -> tensor<4x6xf32>
  util.return %v : tensor<4x6xf32>
}

// -----

// The gather reads other rows than those that are sorted: it stays.
// CHECK-LABEL: @values_of_another_place
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[Y]]
// CHECK: tensor.extract
util.func public @values_of_another_place(%arg: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %c0 = arith.constant 0 : index
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant 0 : i32
  %n = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %p = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %be = tensor.empty() : tensor<4x6x6xi1>
  %before = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1)>, affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%arg, %arg, %n, %n : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xi32>, tensor<6xi32>)
      outs(%be : tensor<4x6x6xi1>) {
  ^bb0(%x: f32, %y: f32, %j: i32, %k: i32, %o: i1):
    %lt = arith.cmpf olt, %y, %x : f32
    %gt = arith.cmpf ogt, %y, %x : f32
    %nx = arith.cmpf une, %x, %x : f32
    %ny = arith.cmpf une, %y, %y : f32
    %mx = arith.xori %nx, %true : i1
    %my = arith.xori %ny, %true : i1
    %nl = arith.andi %nx, %my : i1
    %ng = arith.andi %ny, %mx : i1
    %ll = arith.ori %lt, %nl : i1
    %gg = arith.ori %gt, %ng : i1
    %le = arith.xori %gg, %true : i1
    %e = arith.cmpi slt, %k, %j : i32
    %s = arith.select %e, %le, %ll : i1
    linalg.yield %s : i1
  } -> tensor<4x6x6xi1>
  %we = tensor.empty() : tensor<4x6x6xi32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%before : tensor<4x6x6xi1>) outs(%we : tensor<4x6x6xi32>) {
  ^bb0(%a: i1, %o: i32):
    %c = arith.extui %a : i1 to i32
    linalg.yield %c : i32
  } -> tensor<4x6x6xi32>
  %re = tensor.empty() : tensor<4x6xi32>
  %rf = linalg.fill ins(%init : i32) outs(%re : tensor<4x6xi32>) -> tensor<4x6xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x6x6xi32>) outs(%rf : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  %he = tensor.empty() : tensor<4x6x6xi32>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %p, %n : tensor<4x6xi32>, tensor<6xi32>, tensor<6xi32>)
      outs(%he : tensor<4x6x6xi32>) {
  ^bb0(%a: i32, %b: i32, %i: i32, %o: i32):
    %c = arith.cmpi eq, %a, %b : i32
    %d = arith.select %c, %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<4x6x6xi32>
  %ie = tensor.empty() : tensor<4x6xi32>
  %if = linalg.fill ins(%init : i32) outs(%ie : tensor<4x6xi32>) -> tensor<4x6xi32>
  %i = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h : tensor<4x6x6xi32>) outs(%if : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  %ve = tensor.empty() : tensor<4x6xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4x6xi32>) outs(%ve : tensor<4x6xf32>) {
  ^bb0(%n0: i32, %o: f32):
    %l = linalg.index 0 : index
    %c = arith.index_cast %n0 : i32 to index
    %e = tensor.extract %arg[%c0, %c] : tensor<4x6xf32>
    linalg.yield %e : f32
  } -> tensor<4x6xf32>
  util.return %v : tensor<4x6xf32>
}

// -----

// Three of six elements in each column; the columns of f16 are contiguous.
// CHECK: arith.minui {{.*}} : vector<8xi32>
// CHECK-LABEL: @first_of_a_leading_dimension
// CHECK-SAME: %[[X:.*]]: tensor<6x4xf16>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
util.func public @first_of_a_leading_dimension(%arg: tensor<6x4xf16>) -> tensor<3x4xi32> {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant 0 : i32
  %n = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %p = arith.constant dense<[0, 1, 2]> : tensor<3xi32>
  %be = tensor.empty() : tensor<6x4x6xi1>
  %before = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1)>, affine_map<(d0, d1, k) -> (k, d1)>, affine_map<(d0, d1, k) -> (d0)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%arg, %arg, %n, %n : tensor<6x4xf16>, tensor<6x4xf16>, tensor<6xi32>, tensor<6xi32>)
      outs(%be : tensor<6x4x6xi1>) {
  ^bb0(%x: f16, %y: f16, %j: i32, %k: i32, %o: i1):
    %lt = arith.cmpf ogt, %y, %x : f16
    %gt = arith.cmpf olt, %y, %x : f16
    %nx = arith.cmpf une, %y, %y : f16
    %ny = arith.cmpf une, %x, %x : f16
    %mx = arith.xori %nx, %true : i1
    %my = arith.xori %ny, %true : i1
    %nl = arith.andi %nx, %my : i1
    %ng = arith.andi %ny, %mx : i1
    %ll = arith.ori %lt, %nl : i1
    %gg = arith.ori %gt, %ng : i1
    %le = arith.xori %gg, %true : i1
    %e = arith.cmpi slt, %k, %j : i32
    %s = arith.select %e, %le, %ll : i1
    linalg.yield %s : i1
  } -> tensor<6x4x6xi1>
  %we = tensor.empty() : tensor<6x4x6xi32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%before : tensor<6x4x6xi1>) outs(%we : tensor<6x4x6xi32>) {
  ^bb0(%a: i1, %o: i32):
    %c = arith.extui %a : i1 to i32
    linalg.yield %c : i32
  } -> tensor<6x4x6xi32>
  %re = tensor.empty() : tensor<6x4xi32>
  %rf = linalg.fill ins(%init : i32) outs(%re : tensor<6x4xi32>) -> tensor<6x4xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<6x4x6xi32>) outs(%rf : tensor<6x4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<6x4xi32>
  %he = tensor.empty() : tensor<3x4x6xi32>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (k, d1)>, affine_map<(d0, d1, k) -> (d0)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %p, %n : tensor<6x4xi32>, tensor<3xi32>, tensor<6xi32>)
      outs(%he : tensor<3x4x6xi32>) {
  ^bb0(%a: i32, %b: i32, %i: i32, %o: i32):
    %c = arith.cmpi eq, %a, %b : i32
    %d = arith.select %c, %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<3x4x6xi32>
  %ie = tensor.empty() : tensor<3x4xi32>
  %if = linalg.fill ins(%init : i32) outs(%ie : tensor<3x4xi32>) -> tensor<3x4xi32>
  %i = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h : tensor<3x4x6xi32>) outs(%if : tensor<3x4xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<3x4xi32>
  util.return %i : tensor<3x4xi32>
}

// -----

// Long rows, few of them: passes over the digits of keys, with the counters on the stack.
// CHECK: memref.alloca{{.*}}xi32>
// CHECK: arith.shrui
// CHECK-LABEL: @digits
// CHECK-SAME: %[[X:.*]]: tensor<1x5000xi32>
// CHECK: %[[Y:.*]]:2 = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
// CHECK: return %[[Y]]#0
util.func public @digits(%x: tensor<1x5000xi32>) -> tensor<1x5000xi32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<1x5000xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sle, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<1x5000xi32>
  util.return %s : tensor<1x5000xi32>
}

// -----

// Blocks of 64 columns, then merges.
// CHECK: arith.shli
// CHECK: arith.minui {{.*}} : vector<8xi32>
// CHECK-LABEL: @merges
// CHECK-SAME: %[[X:.*]]: tensor<300x100x8xi16>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
util.func public @merges(%x: tensor<300x100x8xi16>) -> tensor<300x100x8xi16> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<300x100x8xi16>) {
  ^bb0(%a: i16, %b: i16):
    %c = arith.cmpi sge, %a, %b : i16
    iree_linalg_ext.yield %c : i1
  } -> tensor<300x100x8xi16>
  util.return %s : tensor<300x100x8xi16>
}

// -----

// The comparator's function of an element is the key: JAX's order, in which NaN is last.
// CHECK: arith.cmpf une, {{.*}} : vector<
// CHECK: arith.subi
// CHECK-LABEL: @function_of_an_element
// CHECK-SAME: %[[X:.*]]: tensor<40x20xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
util.func public @function_of_an_element(%x: tensor<40x20xf32>) -> tensor<40x20xf32> {
  %nan = arith.constant 0x7FC00000 : f32
  %zero = arith.constant 0 : i32
  %most = arith.constant 2147483647 : i32
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<40x20xf32>) {
  ^bb0(%a: f32, %b: f32):
    %na = arith.cmpf une, %a, %a : f32
    %fa = arith.select %na, %nan, %a : f32
    %ia = arith.bitcast %fa : f32 to i32
    %la = arith.cmpi slt, %ia, %zero : i32
    %ma = arith.subi %most, %ia : i32
    %ka = arith.select %la, %ma, %ia : i32
    %nb = arith.cmpf une, %b, %b : f32
    %fb = arith.select %nb, %nan, %b : f32
    %ib = arith.bitcast %fb : f32 to i32
    %lb = arith.cmpi slt, %ib, %zero : i32
    %mb = arith.subi %most, %ib : i32
    %kb = arith.select %lb, %mb, %ib : i32
    %c = arith.cmpi sge, %kb, %ka : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<40x20xf32>
  util.return %s : tensor<40x20xf32>
}

// -----

// Indices of the two largest of 300 elements: those of the sort's operand are not read. Without an
// order of NaN it is refused by the option.
// CHECK: vector.reduction <or>
// CHECK-LABEL: @selection
// CHECK-SAME: %[[X:.*]]: tensor<3x300xf32>
// CHECK: %[[Y:.*]]:2 = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
// CHECK: return %[[Y]]#0, %[[Y]]#1
// TOTAL-LABEL: @selection
// TOTAL-NOT: flow.dispatch
// TOTAL: iree_linalg_ext.sort
util.func public @selection(%x: tensor<3x300xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  %e = tensor.empty() : tensor<3x300xi64>
  %n = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<3x300xi64>) {
  ^bb0(%o: i64):
    %l = linalg.index 1 : index
    %c = arith.index_cast %l : index to i64
    linalg.yield %c : i64
  } -> tensor<3x300xi64>
  %s:2 = iree_linalg_ext.sort dimension(1) outs(%x, %n : tensor<3x300xf32>, tensor<3x300xi64>) {
  ^bb0(%a: f32, %b: f32, %j: i64, %k: i64):
    %c = arith.cmpf oge, %a, %b : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<3x300xf32>, tensor<3x300xi64>
  %v = tensor.extract_slice %s#0[0, 0] [3, 2] [1, 1] : tensor<3x300xf32> to tensor<3x2xf32>
  %i = tensor.extract_slice %s#1[0, 0] [3, 2] [1, 1] : tensor<3x300xi64> to tensor<3x2xi64>
  util.return %v, %i : tensor<3x2xf32>, tensor<3x2xi64>
}

// -----

// CHECK-LABEL: @largest
// CHECK-SAME: %[[X:.*]]: tensor<9x20xi32>
// CHECK: %[[Y:.*]]:2 = flow.dispatch @vector_kernel_{{.*}}::@sort_{{.*}}(%[[X]])
// CHECK: return %[[Y]]#0, %[[Y]]#1
util.func public @largest(%x: tensor<9x20xi32>) -> (tensor<9x3xi32>, tensor<9x3xi32>) {
  %v = arith.constant dense<-2147483648> : tensor<9x3xi32>
  %i = arith.constant dense<2147483647> : tensor<9x3xi32>
  %s:2 = iree_linalg_ext.topk {operandSegmentSizes = array<i32: 1, 2>} dimension(1) ins(%x : tensor<9x20xi32>) outs(%v, %i : tensor<9x3xi32>, tensor<9x3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sgt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<9x3xi32>, tensor<9x3xi32>
  util.return %s#0, %s#1 : tensor<9x3xi32>, tensor<9x3xi32>
}

// -----

// CHECK-LABEL: @no_kernel_least_of_others
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.topk
// WHY-LABEL: @no_kernel_least_of_others
// WHY: begins with other elements
util.func public @no_kernel_least_of_others(%x: tensor<9x20xi32>) -> (tensor<9x3xi32>, tensor<9x3xi32>) {
  %v = arith.constant dense<0> : tensor<9x3xi32>
  %i = arith.constant dense<2147483647> : tensor<9x3xi32>
  %s:2 = iree_linalg_ext.topk {operandSegmentSizes = array<i32: 1, 2>} dimension(1) ins(%x : tensor<9x20xi32>) outs(%v, %i : tensor<9x3xi32>, tensor<9x3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sgt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<9x3xi32>, tensor<9x3xi32>
  util.return %s#0, %s#1 : tensor<9x3xi32>, tensor<9x3xi32>
}

// -----

// CHECK-LABEL: @no_kernel_last_of_equal_ones
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.topk
// WHY-LABEL: @no_kernel_last_of_equal_ones
// WHY: other elements than the largest
util.func public @no_kernel_last_of_equal_ones(%x: tensor<9x20xi32>) -> (tensor<9x3xi32>, tensor<9x3xi32>) {
  %v = arith.constant dense<-2147483648> : tensor<9x3xi32>
  %i = arith.constant dense<2147483647> : tensor<9x3xi32>
  %s:2 = iree_linalg_ext.topk {operandSegmentSizes = array<i32: 1, 2>} dimension(1) ins(%x : tensor<9x20xi32>) outs(%v, %i : tensor<9x3xi32>, tensor<9x3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sge, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<9x3xi32>, tensor<9x3xi32>
  util.return %s#0, %s#1 : tensor<9x3xi32>, tensor<9x3xi32>
}

// -----

// CHECK-LABEL: @no_kernel_strict
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_strict
// WHY: false for equal elements
util.func public @no_kernel_strict(%x: tensor<4x6xi32>) -> tensor<4x6xi32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi slt, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x6xi32>
  util.return %s : tensor<4x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_two_functions
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_two_functions
// WHY: of two functions
util.func public @no_kernel_two_functions(%x: tensor<4x6xi32>) -> tensor<4x6xi32> {
  %one = arith.constant 1 : i32
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %f = arith.addi %a, %one : i32
    %c = arith.cmpi sle, %f, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x6xi32>
  util.return %s : tensor<4x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_not_a_comparison
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_not_a_comparison
// WHY: no comparison of two values
util.func public @no_kernel_not_a_comparison(%x: tensor<4x6xi32>) -> tensor<4x6xi32> {
  %true = arith.constant true
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %d = arith.cmpi sle, %a, %b : i32
    %c = arith.xori %d, %true : i1
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x6xi32>
  util.return %s : tensor<4x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_dynamic
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_dynamic
// WHY: static sizes
util.func public @no_kernel_dynamic(%x: tensor<?x6xi32>) -> tensor<?x6xi32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<?x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sle, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<?x6xi32>
  util.return %s : tensor<?x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_empty
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_empty
// WHY: no elements
util.func public @no_kernel_empty(%x: tensor<0x6xi32>) -> tensor<0x6xi32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<0x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sle, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<0x6xi32>
  util.return %s : tensor<0x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_booleans
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_booleans
// WHY: sort of i1
util.func public @no_kernel_booleans(%x: tensor<4x6xi1>) -> tensor<4x6xi1> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<4x6xi1>) {
  ^bb0(%a: i1, %b: i1):
    %c = arith.cmpi sle, %a, %b : i1
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x6xi1>
  util.return %s : tensor<4x6xi1>
}

// -----

// CHECK-LABEL: @no_kernel_too_large
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_too_large
// WHY: 32-bit offsets
util.func public @no_kernel_too_large(%x: tensor<65536x65536xi32>) -> tensor<65536x65536xi32> {
  %s = iree_linalg_ext.sort dimension(1) outs(%x : tensor<65536x65536xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sle, %a, %b : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<65536x65536xi32>
  util.return %s : tensor<65536x65536xi32>
}

// -----

// CHECK-LABEL: @no_kernel_two_tensors
// CHECK-NOT: flow.dispatch
// CHECK: iree_linalg_ext.sort
// WHY-LABEL: @no_kernel_two_tensors
// WHY: elements of two tensors
util.func public @no_kernel_two_tensors(%x: tensor<4x6xi32>, %y: tensor<4x6xi32>) -> tensor<4x6xi32> {
  %s:2 = iree_linalg_ext.sort dimension(1) outs(%x, %y : tensor<4x6xi32>, tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32, %j: i32, %k: i32):
    %c = arith.cmpi sle, %a, %k : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x6xi32>, tensor<4x6xi32>
  util.return %s#0 : tensor<4x6xi32>
}

// -----

// CHECK-LABEL: @no_kernel_unstable
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_kernel_unstable(%arg: tensor<4x6xf32>) -> tensor<4x6xi32> {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant 0 : i32
  %n = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %p = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %be = tensor.empty() : tensor<4x6x6xi1>
  %before = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1)>, affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%arg, %arg, %n, %n : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xi32>, tensor<6xi32>)
      outs(%be : tensor<4x6x6xi1>) {
  ^bb0(%x: f32, %y: f32, %j: i32, %k: i32, %o: i1):
    %lt = arith.cmpf olt, %y, %x : f32
    %gt = arith.cmpf ogt, %y, %x : f32
    %nx = arith.cmpf une, %x, %x : f32
    %ny = arith.cmpf une, %y, %y : f32
    %mx = arith.xori %nx, %true : i1
    %my = arith.xori %ny, %true : i1
    %nl = arith.andi %nx, %my : i1
    %ng = arith.andi %ny, %mx : i1
    %ll = arith.ori %lt, %nl : i1
    %gg = arith.ori %gt, %ng : i1
    %le = arith.xori %gg, %true : i1
    %e = arith.cmpi sgt, %k, %j : i32
    %s = arith.select %e, %le, %ll : i1
    linalg.yield %s : i1
  } -> tensor<4x6x6xi1>
  %we = tensor.empty() : tensor<4x6x6xi32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%before : tensor<4x6x6xi1>) outs(%we : tensor<4x6x6xi32>) {
  ^bb0(%a: i1, %o: i32):
    %c = arith.extui %a : i1 to i32
    linalg.yield %c : i32
  } -> tensor<4x6x6xi32>
  %re = tensor.empty() : tensor<4x6xi32>
  %rf = linalg.fill ins(%init : i32) outs(%re : tensor<4x6xi32>) -> tensor<4x6xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x6x6xi32>) outs(%rf : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  %he = tensor.empty() : tensor<4x6x6xi32>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%r, %p, %n : tensor<4x6xi32>, tensor<6xi32>, tensor<6xi32>)
      outs(%he : tensor<4x6x6xi32>) {
  ^bb0(%a: i32, %b: i32, %i: i32, %o: i32):
    %c = arith.cmpi eq, %a, %b : i32
    %d = arith.select %c, %i, %zero : i32
    linalg.yield %d : i32
  } -> tensor<4x6x6xi32>
  %ie = tensor.empty() : tensor<4x6xi32>
  %if = linalg.fill ins(%init : i32) outs(%ie : tensor<4x6xi32>) -> tensor<4x6xi32>
  %i = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1, k)>, affine_map<(d0, d1, k) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h : tensor<4x6x6xi32>) outs(%if : tensor<4x6xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    linalg.yield %c : i32
  } -> tensor<4x6xi32>
  util.return %i : tensor<4x6xi32>
}
