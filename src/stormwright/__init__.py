"""Decides where the executors of Apache Storm topologies run, and keeps that placement good."""

__version__ = "0.1.0"
