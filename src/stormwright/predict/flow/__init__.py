"""What every tuple sets off, and where it goes under a placement."""
