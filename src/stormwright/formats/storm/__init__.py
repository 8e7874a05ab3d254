"""What Storm has of its own: its configuration, storm.yaml, submitted topologies, Flux."""
