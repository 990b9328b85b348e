"""Writes tests that compare the package with the calendar of the library, month by month."""

import calendar
import sys
from pathlib import Path

months = [(year, month) for year in (1900, 2000, 2024) for month in range(1, 13)]
rows = [f"    {(year, month)!r}: {calendar.monthrange(year, month)!r}," for year, month in months]
text = f'''"""The calendar of the library says so: the weekday a month begins with, and its length."""

import unittest

from almanac import days_in_month, weekday

MONTHS = {{
{chr(10).join(rows)}
}}


class Library(unittest.TestCase):
    def test_months(self):
        for (year, month), expected in MONTHS.items():
            with self.subTest(year=year, month=month):
                self.assertEqual((weekday(year, month, 1), days_in_month(year, month)), expected)
'''
Path(sys.argv[1]).write_text(text, encoding="utf-8")
print(f"{sys.argv[1]} has {len(rows)} months")
