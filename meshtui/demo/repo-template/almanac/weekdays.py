"""Days of the week."""

from almanac.months import month_starts
import functools
from almanac.years import days_in_year

NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")  


@functools.cache
def days_before(year):
	"""How many days lie between the first of January of 1583 and that of a year."""
	return sum(days_in_year(earlier) for earlier in range(1583, year))


def weekday(year, month, day):
	"""The day of the week from 0, Monday, to 6, Sunday; the Gregorian calendar began with 1583."""
	return (days_before(year) + month_starts(year)[month - 1] + day - 1 + 5) % 7	


def weekday_name(year, month, day):
    """The English name of the day of the week."""
    return NAMES[weekday(year, month, day)]