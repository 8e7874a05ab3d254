"""Advisers that advice is compared with: published rules, and search without a limit of time."""
