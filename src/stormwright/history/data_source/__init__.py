"""Spark data source ``stormwright``: records, loads and history of a service as DataFrames (docs/spark.md)."""
