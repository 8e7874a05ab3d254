"""What waits gets a place: what there is room for, what stays, which node takes it."""
