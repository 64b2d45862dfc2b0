// checked: {"target": "cpu", "switches": {}}
// IREE refuses a group that returns a scalar of which it reads a broadcast. Users of the broadcast
// outside a group get a copy of it, which reads the scalar: the scalar stays outside.
#none = affine_map<(d0) -> ()>
#id = affine_map<(d0) -> (d0)>
#scalar = affine_map<() -> ()>
func.func @main(%y: tensor<5xf32>, %s: tensor<f16>) -> (tensor<5xi1>, tensor<5xf32>) {
  %scalar = tensor.empty() : tensor<f32>
  %wide = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
      ins(%s : tensor<f16>) outs(%scalar : tensor<f32>) {
  ^bb0(%a: f16, %out: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %empty = tensor.empty() : tensor<5xf32>
  %b = linalg.generic {indexing_maps = [#none, #id], iterator_types = ["parallel"]}
      ins(%wide : tensor<f32>) outs(%empty : tensor<5xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<5xf32>
  %eb = tensor.empty() : tensor<5xi1>
  %nan = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%b, %b : tensor<5xf32>, tensor<5xf32>) outs(%eb : tensor<5xi1>) {
  ^bb0(%a: f32, %c: f32, %out: i1):
    %t = arith.cmpf une, %a, %c : f32
    linalg.yield %t : i1
  } -> tensor<5xi1>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%b, %y : tensor<5xf32>, tensor<5xf32>) outs(%empty : tensor<5xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<5xf32>
  return %nan, %sum : tensor<5xi1>, tensor<5xf32>
}
