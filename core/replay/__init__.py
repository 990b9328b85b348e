"""A run directory as it was at an earlier moment, from its journal alone.

Events are folded into a state, the state is made into the same views that a reader makes of the files.
Nothing here writes, and nothing is taken from the files that could be later than the moment shown.
"""
