"""``--on``: what is done about anomalies."""

from __future__ import annotations

import click


def _responses(ctx: click.Context, option: click.Parameter, told: tuple[str, ...]) -> dict[str, str]:
    from typing import get_args

    from stormwright.client.shapes import AnomalyKind, Response

    kinds, responses = get_args(AnomalyKind), get_args(Response)
    found = {}
    for text in told:
        kind, _, response = text.partition("=")
        if kind not in kinds or response not in responses:
            wanted = f"KIND one of {', '.join(kinds)}, and after it = and one of {', '.join(responses)}"
            raise click.BadParameter(f"{text}: should be {wanted}", ctx, option)
        found[kind] = response
    return found


#: ``--on``, what is done about anomalies: kind → response.
on_anomaly = click.option(
    "--on",
    "responses",
    multiple=True,
    metavar="KIND=fix|check|ignore",
    callback=_responses,
    help="What is done about slow-node, node-lost, overload or drift: act as far as the mode lets it, only tell and "
    "suggest, or nothing.  [at first slow-node and node-lost check, the others fix]",
)
