"""The loops that make a placement valid which overloads nodes."""
