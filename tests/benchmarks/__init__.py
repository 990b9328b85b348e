"""Measurements; each compares two sides of the same run."""
