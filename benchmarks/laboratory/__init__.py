"""The laboratory: many short runs of `train.py` on a small transformer, and what they show."""
