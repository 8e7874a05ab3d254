"""How Java schedulers are named; apart from what runs them, so that a look at a name costs nothing."""

from __future__ import annotations

#: What the name of a Java scheduler begins with.
JAVA_PREFIX = "java:"
