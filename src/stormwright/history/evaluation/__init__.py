"""Evaluation of moves by windows before and after them."""
