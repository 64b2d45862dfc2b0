"""Model families of transformers on a GPU: `python -m benchmarks models`."""
