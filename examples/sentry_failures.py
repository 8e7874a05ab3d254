"""Tells Sentry of topologies that find no slots. Needs ``pip install sentry-sdk`` beside stormwright.

::

    export SENTRY_DSN=https://KEY@SENTRY-HOST/PROJECT PYTHONPATH=/opt/stormwright/examples
    stormwright serve … --on-failure sentry_failures:report
"""

from __future__ import annotations

import os

from stormwright.storm.bridge import Failure

# The service loads this module when it starts, and does not start if that fails.
try:
    import sentry_sdk
except ModuleNotFoundError as missing:
    raise SystemExit("the Sentry client is missing; install it with: pip install sentry-sdk") from missing
if not os.environ.get("SENTRY_DSN"):
    raise SystemExit("SENTRY_DSN is not set, so nothing would reach Sentry")

#: Less than the 10 seconds that a call may take.
FLUSH_S = 8.0


def report(failure: Failure) -> None:
    """Send one event; those of one topology make one issue."""
    sentry_sdk.init()  # reads SENTRY_DSN
    sentry_sdk.capture_message(
        f"{failure.topology_name} has no slots: {'; '.join(failure.reasons)}",
        level="error",
        tags={"topology": failure.topology_name, "scheduler": failure.scheduler},
        contexts={"placement": {"topology id": failure.topology_id, "reasons": list(failure.reasons)}},
        fingerprint=["stormwright", failure.topology_name],
    )
    sentry_sdk.flush(FLUSH_S)  # the process ends with this call
