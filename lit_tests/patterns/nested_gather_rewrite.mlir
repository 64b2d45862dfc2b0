// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=nested_gather_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=nested_gather_rewrite | FileCheck %s --check-prefix=OFF

// The columns of a convolution: a padded row, windows of which are gathered.
// CHECK-LABEL: func.func @padded
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>, %[[I:.+]]: tensor<3xi32>
// CHECK-NOT: tensor.pad
// CHECK: %[[N:.+]] = linalg.index 0
// CHECK: %[[AT:.+]] = arith.index_cast
// CHECK-DAG: %[[MOVED:.+]] = arith.subi %[[AT]], %{{.+}} : index
// CHECK: %[[LOW:.+]] = arith.maxsi %[[MOVED]], %{{.+}} : index
// CHECK: %[[PLACE:.+]] = arith.minsi %[[LOW]], %{{.+}} : index
// CHECK: %[[IN:.+]] = arith.cmpi eq, %[[MOVED]], %[[PLACE]] : index
// CHECK: %[[V:.+]] = tensor.extract %[[X]][%[[N]], %[[PLACE]]] : tensor<4x6xf32>
// CHECK: %[[Y:.+]] = arith.select %[[IN]], %[[V]], %{{.+}} : f32
// CHECK: linalg.yield %[[Y]] : f32
// OFF-LABEL: func.func @padded
// OFF: tensor.pad
#read = affine_map<(n, k) -> (k)>
#id = affine_map<(n, k) -> (n, k)>
func.func @padded(%x: tensor<4x6xf32>, %i: tensor<3xi32>) -> tensor<4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 2] high[0, 1] {
  ^bb0(%a: index, %b: index):
    tensor.yield %zero : f32
  } : tensor<4x6xf32> to tensor<4x9xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %y = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<3xi32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%k: i32, %o: f32):
    %n = linalg.index 0 : index
    %at = arith.index_cast %k : i32 to index
    %v = tensor.extract %p[%n, %at] : tensor<4x9xf32>
    linalg.yield %v : f32
  } -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// A gather of a gather: rows in the opposite order, and then every second element of each.
// CHECK-LABEL: func.func @gathered
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>
// CHECK-COUNT-1: linalg.generic
// CHECK: tensor.extract %[[X]]
// CHECK-NOT: linalg.generic
#id = affine_map<(n, k) -> (n, k)>
func.func @gathered(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %three = arith.constant 3 : index
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<4x6xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x6xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %m = arith.subi %three, %n : index
    %v = tensor.extract %x[%m, %k] : tensor<4x6xf32>
    linalg.yield %v : f32
  } -> tensor<4x6xf32>
  %f = tensor.empty() : tensor<4x3xf32>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%f : tensor<4x3xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %m = arith.muli %k, %two : index
    %v = tensor.extract %r[%n, %m] : tensor<4x6xf32>
    linalg.yield %v : f32
  } -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// Left alone: a padded tensor that is a result, too.
// CHECK-LABEL: func.func @result
// CHECK: tensor.pad
#id = affine_map<(k) -> (k)>
func.func @result(%x: tensor<6xf32>) -> (tensor<9xf32>, tensor<3xf32>) {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %p = tensor.pad %x low[2] high[1] {
  ^bb0(%a: index):
    tensor.yield %zero : f32
  } : tensor<6xf32> to tensor<9xf32>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<3xf32>) {
  ^bb0(%o: f32):
    %k = linalg.index 0 : index
    %m = arith.muli %k, %two : index
    %v = tensor.extract %p[%m] : tensor<9xf32>
    linalg.yield %v : f32
  } -> tensor<3xf32>
  return %p, %y : tensor<9xf32>, tensor<3xf32>
}
