"""Virtual Storm in virtual time: Nimbus, supervisors, workers and their probes."""
