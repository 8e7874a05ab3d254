"""Toolkit for schedulers: parameters, registry, description, isolation, limits of workers."""
