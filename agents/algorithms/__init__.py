"""Algorithms, one paper variant per file; the folder is the registry."""
