"""Compares almanac with the calendar of the library, date by date, for as many seconds as the argument says."""

import random
import sys
import time
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from almanac import days_in_year, weekday  # noqa: E402

seconds = float(sys.argv[1])
begin = told = time.monotonic()
count = 0
while (now := time.monotonic()) - begin < seconds:
    day = date.fromordinal(random.randint(date(1583, 1, 1).toordinal(), date(2999, 12, 31).toordinal()))
    if weekday(day.year, day.month, day.day) != day.weekday():
        sys.exit(f"{day} is not the weekday that almanac says")
    if days_in_year(day.year) != date(day.year, 12, 31).timetuple().tm_yday:
        sys.exit(f"{day.year} does not have as many days as almanac says")
    count += 1
    if now - told >= 0.25:
        told = now
        print(f"{count:,} dates agree after {now - begin:.2f} of {seconds:g} s", flush=True)
print(f"all {count:,} dates agree")
