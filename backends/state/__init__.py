"""States as headers register them, key groups, how keys are hashed."""
