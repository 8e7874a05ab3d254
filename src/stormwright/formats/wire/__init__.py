"""What Nimbus sends: snapshots, read piece by piece where they repeat."""
