"""Years and their length."""


def days_in_year(year):
    """How many days a year has."""
    return 366 if is_leap(year) else 365


def is_leap(year):
    """Whether a year has a 29th of February."""
    return year % 4 == 0
