"""From a placement to a better one: random steps that cool down, level by level, on one or several threads."""
