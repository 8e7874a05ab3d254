"""Names of Java schedulers; a separate module, so that checking a name imports no JVM code."""

from __future__ import annotations

#: Prefix of the name of a Java scheduler.
JAVA_PREFIX = "java:"
