"""What things cost: run each with `python -m benchmarks.NAME`."""
