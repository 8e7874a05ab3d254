"""Simulator: a virtual cluster that processes tuples in virtual time and reports like a real one."""
