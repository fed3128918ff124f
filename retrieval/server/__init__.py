"""Search over HTTP: one port, the dialects of many trainers, any number of indexes."""
