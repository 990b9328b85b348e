"""Usage limits in an agent's own words: whether a failure is one, and when it ends."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

LONGEST_DAYS = 35
"""A limit that ends later than this has been read wrongly."""

FIRST_WAIT_SECONDS = 60.0
"""How long work is held whose engine does not say when its limit ends; twice as long each time."""
LONGEST_WAIT_SECONDS = 3600.0

_LIMIT = re.compile(
    r"\b(?:usage|rate|session|weekly|daily|monthly|hourly|\d+-hour|opus|sonnet|spend(?:ing)?)[ _-]limits?\b"
    r"|\bhit your (?:\w+ ){0,2}limit\b|\blimit (?:has been )?reached\b|\btoo many requests\b"
    r"|\b(?:status|error|rejected)\W{0,3}429\b|\bquota exceeded\b|\bexceeded your (?:\w+ ){0,2}quota\b"
    r"|\binsufficient_quota\b|\bresource_exhausted\b|\bout of (?:\w+ ){0,2}(?:usage|credits)\b",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\|\s*(\d{10}|\d{13})\b")
_AFTER = re.compile(r"\b(?:try again|resets?|available again|retry)(?: at| on)?[:\s]+(?=\S)", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_DATE = re.compile(
    r"(?:(?P<month>[a-z]{3})[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>\d{4}))?(?:,| at)*\s*)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?P<half>\s*[ap]\.?m)?\b\.?",
    re.IGNORECASE,
)
_ZONE = re.compile(r"\s*\(?(UTC|GMT|[A-Z][A-Za-z]+(?:/[A-Za-z_+-]+)+)\)?")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m(?!s)|s)[a-z]*\b", re.IGNORECASE)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def is_limit(words: str) -> bool:
    """Whether an error's words are those of a usage or rate limit."""
    return _LIMIT.search(words) is not None


def reset_ms(words: str, now_ms: int, *, zone: tzinfo | None = None) -> int | None:
    """When the limit that ``words`` tell of ends, in ms since the epoch; ``None`` where they do not say.

    A time without a zone is taken in ``zone``, by default this machine's; one without a day is its next
    occurrence.
    """
    found = _EPOCH.search(words)
    if found:
        value = int(found[1])
        return sane_ms(value if value > 1e11 else value * 1000, now_ms)
    for match in _AFTER.finditer(words):
        rest = words[match.end() : match.end() + 120]
        if rest[:3].lower() == "in ":
            spans = _SPAN.findall(rest[3:60])
            if spans:
                seconds = sum(float(number) * _UNITS[unit.lower()] for number, unit in spans)
                return sane_ms(now_ms + round(seconds * 1000), now_ms)
            continue
        moment = _moment(rest, now_ms, zone)
        if moment is not None:
            return sane_ms(moment, now_ms)
    return None


def hold_until(reset_at_ms: int | None, now_ms: int, holds: int) -> tuple[int, bool]:
    """Until when to hold work that ran into a limit for the ``holds``-th time, and whether that was told."""
    if reset_at_ms is not None and reset_at_ms > now_ms:
        return reset_at_ms, True
    wait = min(FIRST_WAIT_SECONDS * 2 ** min(holds - 1, 20), LONGEST_WAIT_SECONDS)
    return now_ms + round(wait * 1000), False


def sane_ms(ms: int | None, now_ms: int) -> int | None:
    """``ms`` where a limit can end then."""
    return ms if ms is not None and now_ms < ms <= now_ms + LONGEST_DAYS * 86_400_000 else None


def _moment(text: str, now_ms: int, zone: tzinfo | None) -> int | None:
    iso = _ISO.match(text)
    if iso:
        return _iso(iso, zone)
    found = _DATE.match(text)
    if found is None or (found["half"] is None and found["minute"] is None):
        return None
    named = _ZONE.match(text[found.end() :])
    if named:
        zone = _zone(named[1]) or zone
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    hour, half = int(found["hour"]), (found["half"] or "").strip().lower()[:1]
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        moment = now.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()) + 1
            moment = moment.replace(year=int(found["year"] or now.year), month=month, day=int(found["day"]))
            if not found["year"] and moment < now - timedelta(days=1):
                moment = moment.replace(year=moment.year + 1)
        elif moment <= now:
            moment += timedelta(days=1)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _iso(found: re.Match[str], zone: tzinfo | None) -> int | None:
    offset = (found[3] or "").upper().replace("UTC", "+00:00").replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{offset}")
        if moment.tzinfo is None and zone is not None:
            moment = moment.replace(tzinfo=zone)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo("UTC" if name == "GMT" else name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
