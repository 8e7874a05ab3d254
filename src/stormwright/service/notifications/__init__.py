"""Notifications of external programs: failed placements, and events."""
