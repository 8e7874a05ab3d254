"""What ``stormwright serve`` is told, and says: its file and variables, its lines, a trial, and reading it again."""
