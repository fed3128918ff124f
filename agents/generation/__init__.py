"""Generation engines, one file each; the folder is the registry."""
