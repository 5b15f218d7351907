"""`holdfast doctor`: what happened according to a job's logs, why, and what to change.

reading     files -> events
matching    events -> what the rules recognise, aggregated
findings    the rules: one module per finding
diagnosis   what was recognised -> findings, causes before consequences
reports     findings -> page, Markdown, text
spark       all of it on Spark; the only package here that imports PySpark

Imports no `runtime`, and never reads a home.
"""
