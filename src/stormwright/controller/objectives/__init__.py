"""Objectives of placements, and placements that were rolled back."""
