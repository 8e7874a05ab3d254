"""A virtual Storm in virtual time: Nimbus, supervisors, workers and the probes in them."""
