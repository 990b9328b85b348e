import unittest

from almanac import days_in_month, month_name
from almanac.months import month_of


class Months(unittest.TestCase):
    def test_length(self):
        self.assertEqual(sum(days_in_month(2023, month) for month in range(1, 13)), 365)
        self.assertEqual(days_in_month(2024, 2), 29)

    def test_names(self):
        self.assertEqual(month_name(1), "January")
        self.assertEqual(month_name(12), "December")

    def test_month_of_a_day(self):
        self.assertEqual([month_of(2023, day) for day in (0, 30, 31, 364)], [1, 1, 2, 12])
