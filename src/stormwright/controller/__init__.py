"""Closes the loop: when to move, what may move, and how."""
