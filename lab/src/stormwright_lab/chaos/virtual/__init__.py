"""Chaos in virtual time: the part of the service that moves topologies, on a virtual cluster in which parts fail."""
