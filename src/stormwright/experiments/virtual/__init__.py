"""Placements tried in virtual time."""
