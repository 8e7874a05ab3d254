"""``stormwright doctor``: facts are gathered in one place, and judged in others that need no cluster."""
