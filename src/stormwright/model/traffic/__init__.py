"""Who sends how much to whom under a placement, and what that costs."""
