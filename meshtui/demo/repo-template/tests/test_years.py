import unittest

from almanac import days_in_year, is_leap


class LeapYears(unittest.TestCase):
    def test_every_fourth_year(self):
        self.assertTrue(is_leap(2024))
        self.assertFalse(is_leap(2023))

    def test_centuries(self):
        self.assertTrue(is_leap(2000))
        self.assertFalse(is_leap(1900), "1900 was no leap year")

    def test_length(self):
        self.assertEqual([days_in_year(year) for year in (2023, 2024)], [365, 366])
