// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: dynamic sizes; a fourth result that is the second, its bits turned twice
func.func @main(%x: tensor<?x16xi32>, %y: tensor<?x16xi32>) -> (tensor<?x16xi32>, tensor<?x16xi32>, tensor<?x16xi32>, tensor<?x16xi32>) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : i32
  %n = tensor.dim %x, %0 : tensor<?x16xi32>
  %e = tensor.empty(%n) : tensor<?x16xi32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<?x16xi32>, tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i0: i32, %i1: i32, %o: i32):
    %r = arith.addi %i0, %i1 : i32
    linalg.yield %r : i32
  } -> tensor<?x16xi32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, %y : tensor<?x16xi32>, tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i0: i32, %i1: i32, %o: i32):
    %r = arith.muli %i0, %i1 : i32
    linalg.yield %r : i32
  } -> tensor<?x16xi32>
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i0: i32, %o: i32):
    %r = arith.xori %i0, %1 : i32
    linalg.yield %r : i32
  } -> tensor<?x16xi32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i0: i32, %o: i32):
    %r = arith.xori %i0, %1 : i32
    linalg.yield %r : i32
  } -> tensor<?x16xi32>
  return %a, %b, %c, %d : tensor<?x16xi32>, tensor<?x16xi32>, tensor<?x16xi32>, tensor<?x16xi32>
}
