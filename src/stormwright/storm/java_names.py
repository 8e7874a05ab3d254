"""Names of Java schedulers; a separate module, so that checking a name imports no JVM code."""

from __future__ import annotations

#: What the name of a Java scheduler begins with.
JAVA_PREFIX = "java:"
