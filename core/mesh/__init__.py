"""Missions: a request becomes a plan of loops, the loops run, and a proof says what came of them."""
