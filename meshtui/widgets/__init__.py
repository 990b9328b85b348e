"""The parts of the screens; each draws what it is given and decides nothing."""
