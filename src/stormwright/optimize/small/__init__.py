"""Small problems: every step there is looked at before one is made."""
