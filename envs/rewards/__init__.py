"""Reward terms, one file each; the folder is the registry."""
