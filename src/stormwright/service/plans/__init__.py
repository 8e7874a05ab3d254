"""Plans, modes and the journal of changes in the service."""
