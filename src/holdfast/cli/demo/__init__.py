"""`holdfast demo`: a real pipeline, three things that go wrong in production, and a proof that the output is exact.

command        the command: makes the directory, plays, cleans up
orders         the pipeline; copied into the directory and run there by `holdfast run`, as any pipeline is
arrivals       the orders that arrive, file by file
driver         the pipeline's process
watching       what can be seen from outside: work directory, journal, table, log
picture        what has been seen so far
narrating      one line for each thing worth telling
screen         how it looks, on a terminal and elsewhere
acts           what is done to the pipeline, and what must hold afterwards
batch_answer   the table once more, computed without Spark and compared
"""
