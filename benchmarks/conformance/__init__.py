"""Conformance: the frameworks' own suites of operators, compiled by mlirfuse and compared.

    python -m benchmarks conformance --suite=onnx,torch,jax --target=cpu

`suite` has the terms, `check` the judgement of one group of cases, `run` the command, `page` the
table of docs/conformance.md. Results are in benchmarks/results/conformance.json.
"""
