"""The coordinator: when a checkpoint begins, fails, counts, is published. Events in, commands out.

Pure: imports `identifiers`, `finding` and `errors`. Never reads a clock, a file or a socket: time is an argument.
"""
