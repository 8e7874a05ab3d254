"""What is noticed over time: overloads, drift of loads, what they will be."""
