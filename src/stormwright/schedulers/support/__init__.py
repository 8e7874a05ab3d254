"""What schedulers share."""
