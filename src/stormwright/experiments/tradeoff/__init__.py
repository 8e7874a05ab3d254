"""What changing what runs gains, run and reported."""
