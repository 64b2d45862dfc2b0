// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_elem_add_fusion,matmul_vector_kernel,sibling_kernel_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_elem_add_fusion,matmul_vector_kernel,sibling_kernel_fusion --disable-pass=sibling_kernel_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: @joint

// Two calls of one kernel, which is there once and selects its weight and its result, and one of another.
// CHECK-LABEL: func.func @joint_
// CHECK: arith.select {{.*}} : memref<960xf32>
// CHECK: arith.select {{.*}} : memref<2440xf32>
// CHECK: } else {
// CHECK-LABEL: @shared_operand
// CHECK: %[[Y:.*]]:3 = flow.dispatch @vector_kernel_{{.*}}::@joint_{{.*}} : (tensor<61x24xf32>, tensor<960xf32>, tensor<960xf32>, tensor<384xf32>) -> (tensor<61x40xf32>, tensor<61x40xf32>, tensor<61x16xf32>)
// CHECK-NEXT: return %[[Y]]#0, %[[Y]]#1, %[[Y]]#2
func.func @shared_operand(%x: tensor<61x24xf32>) -> (tensor<61x40xf32>, tensor<61x40xf32>, tensor<61x16xf32>) {
  %u = arith.constant dense<2.0> : tensor<24x40xf32>
  %v = arith.constant dense<3.0> : tensor<24x40xf32>
  %w = arith.constant dense<4.0> : tensor<24x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<61x40xf32>
  %g = tensor.empty() : tensor<61x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<61x40xf32>) -> tensor<61x40xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<61x16xf32>) -> tensor<61x16xf32>
  %a = linalg.matmul ins(%x, %u : tensor<61x24xf32>, tensor<24x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  %b = linalg.matmul ins(%x, %v : tensor<61x24xf32>, tensor<24x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  %c = linalg.matmul ins(%x, %w : tensor<61x24xf32>, tensor<24x16xf32>) outs(%h : tensor<61x16xf32>) -> tensor<61x16xf32>
  return %a, %b, %c : tensor<61x40xf32>, tensor<61x40xf32>, tensor<61x16xf32>
}

// -----

// The second one reads the first one's result where it writes its own, in the same tiles.
// CHECK-LABEL: @gated
// CHECK: %[[Y:.*]]:2 = flow.dispatch @vector_kernel_{{.*}}::@joint_
// CHECK-NEXT: return %[[Y]]#1
#id = affine_map<(m, n) -> (m, n)>
func.func @gated(%x: tensor<61x24xf32>) -> tensor<61x40xf32> {
  %u = arith.constant dense<2.0> : tensor<24x40xf32>
  %v = arith.constant dense<3.0> : tensor<24x40xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<61x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<61x40xf32>) -> tensor<61x40xf32>
  %a = linalg.matmul ins(%x, %u : tensor<61x24xf32>, tensor<24x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<61x40xf32>) outs(%e : tensor<61x40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.maximumf %i, %zero : f32
    linalg.yield %t : f32
  } -> tensor<61x40xf32>
  %b = linalg.matmul ins(%x, %v : tensor<61x24xf32>, tensor<24x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%b, %r : tensor<61x40xf32>, tensor<61x40xf32>) outs(%e : tensor<61x40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.addf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<61x40xf32>
  return %y : tensor<61x40xf32>
}

// -----

// The second one reads all columns of the first one's result.
// CHECK-LABEL: @product_of_a_product
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@matmul_
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[Y]],
func.func @product_of_a_product(%x: tensor<61x40xf32>) -> tensor<61x40xf32> {
  %u = arith.constant dense<2.0> : tensor<40x40xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<61x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<61x40xf32>) -> tensor<61x40xf32>
  %a = linalg.matmul ins(%x, %u : tensor<61x40xf32>, tensor<40x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  %b = linalg.matmul ins(%a, %u : tensor<61x40xf32>, tensor<40x40xf32>) outs(%f : tensor<61x40xf32>) -> tensor<61x40xf32>
  return %b : tensor<61x40xf32>
}
