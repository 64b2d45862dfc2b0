"""The main job, start to end: `python -m mlirfuse.demo`."""
