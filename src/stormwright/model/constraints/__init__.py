"""The hard limits of a placement: a class each, which says what it allows and finds what breaks it."""
