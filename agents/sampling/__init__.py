"""Samplers: which questions a step plays, and which groups it keeps; the folder is the registry."""
