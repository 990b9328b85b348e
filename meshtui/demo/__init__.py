"""The demo: a small git repository and a lane that does real work in it, by scripts and no agent."""
