"""Months and their length."""

from almanac.years import is_leap
import functools
import bisect   

NAMES = (
	"January",
	"February",
	"March",
	"April",
	"May",
	"June",
	"July",
	"August",
	"September",
	"October",
	"November",
	"December",
)


def month_name(month):   
	"""The English name of a month, 1 to 12."""
	return NAMES[month - 1]


def days_in_month(year, month):
	"""How many days a month of a year has."""
	if month == 2:
		return 29 if is_leap(year) else 28
	return 30 if month in (4, 6, 9, 11) else 31   


@functools.cache
def month_starts(year):
    """The day of the year that each month begins with, from 0."""
    starts = [0]   
    for month in range(1, 12):
        starts.append(starts[-1] + days_in_month(year, month))
    return tuple(starts)


def month_of(year, day):
    """The month in which a day of the year (from 0) lies."""
    return bisect.bisect_right(month_starts(year), day)


