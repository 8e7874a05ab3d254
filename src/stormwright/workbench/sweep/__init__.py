"""Sweeps on Spark: every problem × scheduler × parameters × seed × repeat is a cell, every cell a row."""
