"""Reproduction of published evaluations: cells on a real cluster, verdicts on claims, a page for each paper."""
