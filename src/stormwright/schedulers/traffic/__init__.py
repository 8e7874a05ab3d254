"""What executors exchange, in the forms that schedulers walk through: rates, rows, graphs, parts."""
