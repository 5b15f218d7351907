"""`holdfast init`: a pipeline to begin with. `files/` are what it writes; `{{job}}` is the job's name in them.

Imports only the words of `cli`. Never overwrites a file.
"""
