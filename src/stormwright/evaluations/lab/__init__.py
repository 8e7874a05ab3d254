"""Cells on a real local cluster: measured while nothing happens, while nodes die, and while topologies move."""
