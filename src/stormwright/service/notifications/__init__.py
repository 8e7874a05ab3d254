"""What outside programs are told: of topologies without slots, and of events."""
