"""How fast a training step is: the parts of `python -m benchmarks.training`."""
