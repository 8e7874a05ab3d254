"""Verbs of the laboratory, which `stormwright` finds by entry points of the group ``stormwright.verbs``."""
