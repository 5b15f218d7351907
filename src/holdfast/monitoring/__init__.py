"""Numbers about jobs for Prometheus, from what a journal, a heartbeat and a run's own report say.

Imports `history`, `repository` and `storage`. Never reads a home: whoever serves the numbers has read it.
"""
