"""What is asked of the history: reports, looks of the past, overloads, what was known at a moment."""
