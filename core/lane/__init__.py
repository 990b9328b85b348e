"""The lane: a durable queue of phases on a run directory, and the one runner that works it."""
