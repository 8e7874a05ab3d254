"""Deciding between placements: whose answers there are, what each is worth, and what was learned of others like it."""
