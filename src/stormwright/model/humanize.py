"""Human-readable texts: CPU in GHz, counted nouns, lists of names, times in UTC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

#: Unit of the model → the unit that people read, and how many of the first make one of it.
_READ_AS = {"Hz": ("GHz", 1e9)}

_DIGITS = 4


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 executor``, ``2,000 executors``, ``2 topologies``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of the others: ``a, b, c and 12 more``."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def readable(value: float) -> str:
    """Return a number with three digits, or all digits before the point: ``1.36``, ``12.3``, ``9,353,040``."""
    if not math.isfinite(value):
        return str(value)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{min(max(2 - magnitude, 0), 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    """Return a duration for people: ``45 s``, ``12 min``, ``3 h``, ``2 d``."""
    for unit, size, most in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{max(seconds, 0.0) / size:,.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def in_utc(moment_ms: int) -> str:
    """Return a time, in ms since 1970, as ``2026-11-21 10:30:00 UTC``."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def amount(value: float, unit: str) -> str:
    """Return an amount with its unit, to four digits: ``6.1 GHz`` for 6.1e9 Hz, ``512 MB``.

    Parameters
    ----------
    value
        The amount, in `unit`.
    unit
        Unit of the model, such as Hz; empty for a count.
    """
    unit, scale = _READ_AS.get(unit, (unit, 1.0))
    return f"{_number(value / scale, scale, _DIGITS)} {unit}".rstrip()


def amount_of(used: float, capacity: float, unit: str) -> str:
    """Return usage and capacity, ``6.1 of 4.0 GHz``, with enough digits to distinguish them.

    Parameters
    ----------
    used, capacity
        Used amount and capacity, in `unit`.
    unit
        Unit of the model, such as Hz; empty for a count.
    """
    unit, scale = _READ_AS.get(unit, (unit, 1.0))
    for digits in (_DIGITS, 7, 10, 13):
        texts = [_number(value / scale, scale, digits) for value in (used, capacity)]
        if texts[0] != texts[1]:
            break
    return f"{' of '.join(texts)} {unit}".rstrip()


def amount_range(least: float, most: float, unit: str) -> str:
    """Return ``0.5 to 1.25 GHz``, or a single amount if both read the same."""
    low, high = amount(least, unit), amount(most, unit)
    return low if low == high else f"{low.rpartition(' ')[0]} to {high}"


def reach_texts(predicted: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a line per topology: its predicted rate and bottleneck, beside those of the running placement.

    Parameters
    ----------
    predicted
        ``after`` and ``before``, each as made by `stormwright.predict.reach`.
    """
    before = {one["topology"]: one for one in predicted["before"]}
    for one in predicted["after"]:
        now, text = before.get(one["topology"]), f"{one['topology']}: {_reach_text(one)}"
        yield f"{text}; now {'the same' if now == one else _reach_text(now)}" if now else text


def _reach_text(one: Mapping[str, Any]) -> str:
    reached = one["highest_tps"] if one["pending_tps"] is None else one["pending_tps"]
    rate, latency_ms = readable(one["rate_tps"]), one["latency_ms"]
    text = f"{rate} are not sustained" if latency_ms is None else f"{readable(latency_ms)} ms at {rate}"
    if reached is None:
        return f"no known limit of its trees/s, {text}"
    return f"at most {readable(reached)} trees/s by {one['bottleneck']['text']}, {text}"


def proof_text(proof: Mapping[str, Any]) -> str:
    """Return a proof about a placement as a sentence.

    Parameters
    ----------
    proof
        For traffic with keys `cost`, `bound`, `gap`, `optimal` and `flows`; otherwise as made by
        `stormwright.schedulers.templates.proof_by_rates`.
    """
    of_objective = {"throughput": _rates_text, "nodes": _nodes_text}
    return of_objective.get(proof.get("objective", ""), _cost_text)(proof)


def _rates_text(proof: Mapping[str, Any]) -> str:
    factor, bound = proof["factor"], proof["bound"]
    if factor is None:
        return "nothing that is known limits the rates"
    reached = f"all rates can grow to ×{amount(factor, '')} of those that were measured"
    if proof["optimal"]:
        return f"{reached}, proven to be the most"
    if not factor:
        reached = "not all have a slot, or what they have bears no rate at all"
    if bound is None:
        return f"{reached}; how much more another placement could bear was not proven"
    above = f", {proof['gap']:.1%} above" if proof["gap"] is not None else ""
    return f"{reached}; proven: no placement allows more than ×{amount(bound, '')}{above}"


def _nodes_text(proof: Mapping[str, Any]) -> str:
    wanted = f"the measured rates with {proof['headroom']:.0%} of everything free"
    if proof["bound"] is None:
        return f"no placement on these nodes sustains {wanted}"
    nodes, least = counted(proof["nodes"], "node"), proof["bound"]
    if proof["optimal"]:
        return f"{nodes} in use, proven to be the fewest for {wanted}"
    short = "" if proof["sustained"] else ", which do not sustain that"
    return f"{nodes} in use{short}; proven: at least {least:,} {'is' if least == 1 else 'are'} needed for {wanted}"


def _cost_text(proof: Mapping[str, Any]) -> str:
    if proof["optimal"]:
        return f"cost {readable(proof['cost'])}, proven to be the least"
    if proof["gap"] is None:
        return f"no placement of all executors costs less than {readable(proof['bound'])}; not all have a slot here"
    if proof["bound"] <= 0:
        unproven = f"cost {readable(proof['cost'])}; how much less another placement could cost was not proven"
        if not proof.get("flows"):
            return unproven
        return f"{unproven}: {proof['flows']:.0%} of the traffic is shuffled, which counts as free"
    cost, bound = readable(proof["cost"]), readable(proof["bound"])
    return f"cost {cost}; no placement costs less than {bound}, {proof['gap']:.1%} below"


def time_range(ends_s: Sequence[float]) -> str:
    """Return the range of times in seconds as text, or about how long if they hardly differ; empty without any."""
    if not ends_s:
        return ""
    least, most = (readable(round(end, 1)) for end in (min(ends_s), max(ends_s)))
    return f"{least} to {most} s" if max(ends_s) > 1.5 * min(ends_s) else f"about {most} s"


def _number(value: float, scale: float, digits: int) -> str:
    """Return the digits of a number without trailing zeros; scaled units keep one decimal."""
    if not math.isfinite(value):
        return str(value)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{max(digits - 1 - magnitude, 0)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text if scale == 1 or "." in text else f"{text}.0"
