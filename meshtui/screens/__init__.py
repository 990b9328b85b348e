"""What the console shows at one time, and the questions it asks."""
