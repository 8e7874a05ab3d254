"""The tables: what is in them, where they are, and how staged rows get there."""
