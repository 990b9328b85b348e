"""Engines: one small interface between a request for work and the program that does it."""
