"""The real coordinator, runtime, repository and recovery in a simulated world: one seed, one history."""
