"""Execution of the pipeline: as a stream beside this process, or over files at rest."""
