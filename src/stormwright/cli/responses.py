"""Option ``--on``: responses to anomalies."""

from __future__ import annotations

import click


def _responses(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    from typing import get_args

    from stormwright.plans.modes import AnomalyKind, Response

    kinds, responses = get_args(AnomalyKind), get_args(Response)
    found = {}
    for text in texts:
        kind, _, response = text.partition("=")
        if kind not in kinds or response not in responses:
            wanted = f"KIND one of {', '.join(kinds)} and RESPONSE one of {', '.join(responses)}"
            raise click.BadParameter(f"should be KIND=RESPONSE, with {wanted}; got {text}", ctx, option)
        found[kind] = response
    return found


#: ``--on``, responses to anomalies: kind → response.
on_anomaly = click.option(
    "--on",
    "responses",
    multiple=True,
    metavar="KIND=fix|check|ignore",
    callback=_responses,
    help="Response to slow-node, node-lost, capacity, overload or drift: fix (as far as the mode allows), check "
    "(notify and suggest only), or ignore.  [initially fix for overload and drift, otherwise check]",
)
