"""Explanation of a placement: why an executor has no slot, costs of moving it elsewhere, and overloaded nodes."""
