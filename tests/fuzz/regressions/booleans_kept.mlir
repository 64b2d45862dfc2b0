// checked: {"target": "cpu", "switches": {}}
// IREE refuses a group that reads the booleans that it returns: "write affecting operations on
// global resources are restricted to workgroup distributed contexts". `elementwise_fusion` leaves
// their comparison outside.
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<10x5xf32>, %y: tensor<10x5xf32>) -> (tensor<10x5xi1>, tensor<10x5xf32>) {
  %booleans = tensor.empty() : tensor<10x5xi1>
  %empty = tensor.empty() : tensor<10x5xf32>
  %mask = linalg.generic {indexing_maps = [#id, #id, #id],
                          iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<10x5xf32>, tensor<10x5xf32>) outs(%booleans : tensor<10x5xi1>) {
  ^bb0(%a: f32, %b: f32, %out: i1):
    %less = arith.cmpf olt, %a, %b : f32
    linalg.yield %less : i1
  } -> tensor<10x5xi1>
  %chosen = linalg.generic {indexing_maps = [#id, #id, #id, #id],
                            iterator_types = ["parallel", "parallel"]}
      ins(%mask, %x, %y : tensor<10x5xi1>, tensor<10x5xf32>, tensor<10x5xf32>)
      outs(%empty : tensor<10x5xf32>) {
  ^bb0(%take: i1, %a: f32, %b: f32, %out: f32):
    %one = arith.select %take, %a, %b : f32
    linalg.yield %one : f32
  } -> tensor<10x5xf32>
  return %mask, %chosen : tensor<10x5xi1>, tensor<10x5xf32>
}
