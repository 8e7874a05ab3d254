"""A placement in the making, and what may not be together in it."""
