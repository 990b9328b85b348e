"""When a cap is reached, or a queue empty, if things go on as they did lately; and why that cannot be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_MS = 2 * 3600 * 1000
"""How far back the pace is taken from."""
MOST_POINTS = 50
LEAST_POINTS = 3
LEAST_MS = 10_000
"""Over a shorter time than this a pace means nothing."""
FAR_MS = 30 * 86_400 * 1000


@dataclass(frozen=True, slots=True)
class Forecast:
    """What can be said of an end."""

    at: int | None = None
    """When it comes, ms since the epoch."""
    per_hour: float | None = None
    """The pace it rests on."""
    points: int = 0
    span_ms: int = 0
    reason: str = ""
    """Why there is no ``at``, in words."""


def reaches(points: Sequence[tuple[int, float]], most: float, now: int, *, working: bool) -> Forecast:
    """When a total that grew as ``points`` ``(time, total)`` tell reaches ``most``.

    ``working`` says whether anything goes on that could use more.
    """
    if points and points[-1][1] >= most:
        return Forecast(reason="the cap is reached")
    window = _window(points)
    if len(window) < LEAST_POINTS:
        told = len(points)
        what = (
            "nothing was reported yet"
            if not told
            else f"only {told} reports so far, {LEAST_POINTS} are needed"
        )
        return Forecast(points=told, reason=f"no forecast: {what}")
    span, grown = window[-1][0] - window[0][0], window[-1][1] - window[0][1]
    if span < LEAST_MS:
        return Forecast(points=len(window), reason="no forecast: all reports came within seconds")
    if grown <= 0:
        return Forecast(points=len(window), span_ms=span, reason="no forecast: nothing was added lately")
    pace = grown / span
    known = Forecast(per_hour=pace * 3_600_000, points=len(window), span_ms=span)
    if not working:
        return _because(known, "no forecast: nothing runs now")
    end = max(now, round(window[-1][0] + (most - points[-1][1]) / pace))
    if end - now > FAR_MS:
        return _because(known, "not within 30 days at this rate")
    return Forecast(end, known.per_hour, known.points, known.span_ms)


def empties(finishes: Sequence[int], left: int, now: int, *, working: bool) -> Forecast:
    """When ``left`` phases are done, if they end as quickly as those that ended at the times ``finishes``."""
    if not left:
        return Forecast(reason="nothing waits")
    window = _window([(at, float(number)) for number, at in enumerate(finishes)])
    if len(window) < LEAST_POINTS or window[-1][0] - window[0][0] < LEAST_MS:
        return Forecast(points=len(window), reason="no forecast: too few phases have ended")
    pace = (window[-1][1] - window[0][1]) / (window[-1][0] - window[0][0])
    known = Forecast(per_hour=pace * 3_600_000, points=len(window), span_ms=window[-1][0] - window[0][0])
    if not working:
        return _because(known, "no forecast: no runner works now")
    end = max(now, round(window[-1][0] + left / pace))
    if end - now > FAR_MS:
        return _because(known, "not within 30 days at this pace")
    return Forecast(end, known.per_hour, known.points, known.span_ms)


def _because(known: Forecast, reason: str) -> Forecast:
    return Forecast(None, known.per_hour, known.points, known.span_ms, reason)


def _window(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    recent = points[-MOST_POINTS:]
    return [point for point in recent if point[0] >= recent[-1][0] - WINDOW_MS] if recent else recent
