import unittest

from almanac import weekday_name


class Weekdays(unittest.TestCase):
    def test_known_days(self):
        self.assertEqual(weekday_name(1583, 1, 1), "Saturday")
        self.assertEqual(weekday_name(1648, 10, 24), "Saturday")
