"""What is not valid is made valid by few small steps."""
