"""Formats of Storm: its configuration, storm.yaml, submitted topologies, Flux."""
