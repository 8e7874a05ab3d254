"""Why an executor is where it is, why it has no slot, what else it would cost, and what overloads a node."""
