"""Agents that are not trained, one file each, over the same environment."""
