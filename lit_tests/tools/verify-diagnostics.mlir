// RUN: %mlirfuse-opt %s --pipeline=none --split-input-file --verify-diagnostics

util.func public @wrong_type(%x: i32) -> i32 {
  // expected-error @+1 {{operand #0 must be floating-point-like}}
  %y = arith.addf %x, %x : i32
  util.return %y : i32
}

// -----

util.func public @unknown_op(%x: i32) -> i32 {
  %y = "arith.nosuchop"(%x) : (i32) -> i32
  // expected-error-re @above {{unregistered operation .*nosuchop|nosuchop}}
  util.return %y : i32
}

// -----

util.func public @fine(%x: i32) -> i32 {
  util.return %x : i32
}
