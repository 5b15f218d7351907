"""`holdfast doctor`: what a job's logs say, why it happened, what to change.

reading     files -> events
matching    events -> what the rules see, added up
findings    the rules: one module per finding
diagnosis   what was seen -> findings, causes before consequences
reports     findings -> page, Markdown, text
spark       all of it on Spark; the only room that imports PySpark
"""
