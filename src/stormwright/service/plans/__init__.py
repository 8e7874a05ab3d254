"""What people operate a service with: plans, modes, and the history of what was done."""
