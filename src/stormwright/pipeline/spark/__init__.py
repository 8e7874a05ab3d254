"""Spark: sessions, targets, and supervision of queries."""
