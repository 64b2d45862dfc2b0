// The fusion graph of two ops in a group and one that was left out, for Graphviz and Model Explorer.
// RUN: %mlirfuse-opt %s --pipeline=elementwise_fusion --never-fuse=apart --graph=%t.dot -o %t.mlir
// RUN: FileCheck %s --check-prefix=DOT --input-file %t.dot
// RUN: %mlirfuse-opt - --pipeline=elementwise_fusion --never-fuse=apart --graph=%t.json -o %t.mlir < %s
// RUN: FileCheck %s --check-prefix=JSON --input-file %t.json
// RUN: not %mlirfuse-opt %s --graph=%t.svg -o %t.mlir 2>&1 | FileCheck %s --check-prefix=ENDING
// RUN: not %mlirfuse-opt %s --split-input-file --graph=%t.dot 2>&1 | FileCheck %s --check-prefix=SECTIONS

// DOT: label="@main"
// DOT: label="elementwise_fusion match 0\nsaves nothing: stock IREE fuses it"
// DOT: op0 [label="linalg.generic\ngraph.mlir:{{[0-9]+}}:
// DOT: op1 [
// DOT: op2 [
// DOT: op0 -> op1 [label="32 B", tooltip="tensor<8xf32>"]
// DOT: op1 -> op2 [label="32 B", style=dotted, {{.*}}marked never-fuse: apart (hint:

// JSON: "namespace": "elementwise_fusion match 0"
// JSON: "name": "an op of the match is marked never-fuse"

// ENDING: error: --graph={{.*}}.svg: takes FILE.dot or FILE.json
// SECTIONS: error: --graph draws one module; give it without --split-input-file and
#m = affine_map<(i) -> (i)>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %b = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.sin %i : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"], mlirfuse.id = "apart"} ins(%b : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.cos %i : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %c : tensor<8xf32>
}
