"""A very small calendar."""

from almanac.weekdays import weekday, weekday_name
from almanac.years import days_in_year, is_leap
from almanac.months import days_in_month, month_name

__all__ = ["days_in_month", "days_in_year", "is_leap", "month_name", "weekday", "weekday_name"]
