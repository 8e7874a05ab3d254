"""Published evaluations again: cells on a real cluster, verdicts on what papers say, a page for each paper."""
