"""Plans for review: description, stages, preconditions, modes and rollback; pure functions."""
