"""Tells Sentry of topologies that find no slots. Needs ``pip install sentry-sdk`` beside stormwright.

::

    export SENTRY_DSN=https://KEY@SENTRY-HOST/PROJECT PYTHONPATH=/opt/stormwright/examples
    stormwright serve … --on-failure sentry_failures:report
"""

from __future__ import annotations

import sentry_sdk

from stormwright.storm.bridge import Failure

# Reads SENTRY_DSN. Without integrations, which would watch the service's own web server and log.
sentry_sdk.init(default_integrations=False)


def report(failure: Failure) -> None:
    """Send one event; those of one topology make one issue."""
    sentry_sdk.capture_message(
        f"{failure.topology_name} has no slots: {'; '.join(failure.reasons)}",
        level="error",
        tags={"topology": failure.topology_name, "scheduler": failure.scheduler},
        contexts={"placement": {"topology id": failure.topology_id, "reasons": list(failure.reasons)}},
        fingerprint=["stormwright", failure.topology_name],
    )
