// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=sort_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=sort_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=sort_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch.region

// CHECK-LABEL: @ascending
// CHECK: flow.dispatch.region
util.func public @ascending(%arg: tensor<4x6xf32>) -> tensor<4x6xi32> {
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
  util.return %i : tensor<4x6xi32>
}

// -----

// CHECK-LABEL: @first_of_a_leading_dimension
// CHECK: flow.dispatch.region
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

// CHECK-LABEL: @no_sort_without_nan
// CHECK-NOT: flow.dispatch.region
util.func public @no_sort_without_nan(%arg: tensor<4x6xf32>) -> tensor<4x6xi32> {
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
    %le = arith.xori %gt, %true : i1
    %e = arith.cmpi slt, %k, %j : i32
    %s = arith.select %e, %le, %lt : i1
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

// -----

// CHECK-LABEL: @no_stable_sort
// CHECK-NOT: flow.dispatch.region
util.func public @no_stable_sort(%arg: tensor<4x6xf32>) -> tensor<4x6xi32> {
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

// -----

// CHECK-LABEL: @no_kernel_of_i64
// CHECK-NOT: flow.dispatch.region
util.func public @no_kernel_of_i64(%arg: tensor<4x6xi64>) -> tensor<4x6xi32> {
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %init = arith.constant 0 : i32
  %n = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %p = arith.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
  %be = tensor.empty() : tensor<4x6x6xi1>
  %before = linalg.generic {indexing_maps = [affine_map<(d0, d1, k) -> (d0, d1)>, affine_map<(d0, d1, k) -> (d0, k)>, affine_map<(d0, d1, k) -> (d1)>, affine_map<(d0, d1, k) -> (k)>, affine_map<(d0, d1, k) -> (d0, d1, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%arg, %arg, %n, %n : tensor<4x6xi64>, tensor<4x6xi64>, tensor<6xi32>, tensor<6xi32>)
      outs(%be : tensor<4x6x6xi1>) {
  ^bb0(%x: i64, %y: i64, %j: i32, %k: i32, %o: i1):
    %lt = arith.cmpi slt, %y, %x : i64
    %gt = arith.cmpi sgt, %y, %x : i64
    %le = arith.xori %gt, %true : i1
    %e = arith.cmpi slt, %k, %j : i32
    %s = arith.select %e, %le, %lt : i1
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

// -----

// The indices as i64, and the elements of both tensors along them, are results of one group.
// CHECK-LABEL: @gathers_of_the_elements
// CHECK: flow.dispatch.region -> (tensor<4x6xi64>, tensor<4x6xf32>, tensor<4x6xf32>)
// CHECK-NOT: flow.dispatch.region
util.func public @gathers_of_the_elements(%arg: tensor<4x6xf32>, %other: tensor<4x6xf32>) -> (tensor<4x6xi64>, tensor<4x6xf32>, tensor<4x6xf32>) {
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
  %widee = tensor.empty() : tensor<4x6xi64>
  %wide = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4x6xi32>) outs(%widee : tensor<4x6xi64>) {
  ^bb0(%a: i32, %o: i64):
    %c = arith.extsi %a : i32 to i64
    linalg.yield %c : i64
  } -> tensor<4x6xi64>
  %ve = tensor.empty() : tensor<4x6xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%wide : tensor<4x6xi64>) outs(%ve : tensor<4x6xf32>) {
  ^bb0(%a: i64, %o: f32):
    %d0 = linalg.index 0 : index
    %d1 = linalg.index 1 : index
    %k = arith.index_cast %a : i64 to index
    %c = tensor.extract %arg[%d0, %k] : tensor<4x6xf32>
    linalg.yield %c : f32
  } -> tensor<4x6xf32>
  %ue = tensor.empty() : tensor<4x6xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%wide : tensor<4x6xi64>) outs(%ue : tensor<4x6xf32>) {
  ^bb0(%a: i64, %o: f32):
    %d0 = linalg.index 0 : index
    %d1 = linalg.index 1 : index
    %k = arith.index_cast %a : i64 to index
    %c = tensor.extract %other[%d0, %k] : tensor<4x6xf32>
    linalg.yield %c : f32
  } -> tensor<4x6xf32>
  util.return %wide, %v, %u : tensor<4x6xi64>, tensor<4x6xf32>, tensor<4x6xf32>
}
