"""Question sets, one file each; the folder is the registry."""
