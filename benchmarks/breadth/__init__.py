"""Random programs on a GPU, beside PyTorch and torch.compile: `python -m benchmarks breadth`."""
