"""Whole models on a CPU beside PyTorch, ONNX Runtime, OpenVINO and IREE, each in a process."""
