"""What an objective may cost besides its reward; the folder is the registry."""
