"""Files of any kind, in and out: JSON, gzipped or not, YAML, NumPy archives."""
