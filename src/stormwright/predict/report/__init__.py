"""What is predicted, as people and programs read it."""
