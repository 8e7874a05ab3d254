"""What is wrong with a problem built in Python: the faults that a file with the same content would have."""
