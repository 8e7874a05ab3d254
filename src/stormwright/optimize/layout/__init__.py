"""From a problem to a layout to search in, cut into regions or with executors joined, and back."""
