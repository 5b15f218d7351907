"""`holdfast demo`: a real pipeline, five production failures, and a proof that the output is exact.

command        the command: creates the directory, runs the acts, cleans up
orders         the pipeline; copied into the directory and run there by `holdfast run`, like any pipeline
arrivals       the orders that arrive, file by file
deployments    what an operator changes and types, besides starting and stopping it
driver         the pipeline's process
watching       observes the pipeline from outside: work directory, journal, table, log
picture        everything observed so far
narrating      one line of output per event
screen         the output, on a terminal and elsewhere
acts           what is done to the pipeline, and what must hold afterwards
plain_orders   the same query under plain Spark
plain          its processes and its table, on the other half of the screen
beside         what each act does to plain Spark, and one sentence about what became of it
score          what readers of a table see, beside what they should see
batch_answer   computes the table again without Spark, and compares

Imports `cli` and below. Never reaches into a run: it sees what an operator sees.
"""
