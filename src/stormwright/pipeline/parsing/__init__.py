"""Parsing and cleaning: lines to records, and the quarantine of rejected lines."""
