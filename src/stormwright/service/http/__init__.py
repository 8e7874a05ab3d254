"""The doors of the service: Nimbus asks, probes deliver, people and Prometheus look."""
