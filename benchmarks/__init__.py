"""Benchmarks, from the root of a clone: ``python -m benchmarks.ROOM.NAME``; each says how at its top."""
