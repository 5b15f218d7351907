"""`holdfast dashboard`: pages over a home, the same as JSON, and metrics, by one process with nothing from elsewhere.

Imports the reading parts of `cli`, and `monitoring`. Never writes to a home, and trusts nothing in it as HTML.
"""
