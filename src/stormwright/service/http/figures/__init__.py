"""What `/metrics` has beyond the status: the cluster, plans and modes."""
