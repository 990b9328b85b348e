"""git: working trees, changes, merging and landing; knows nothing of missions."""
