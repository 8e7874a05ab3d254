"""Choosing between placements: members, their answers, evaluation, and the trained model."""
