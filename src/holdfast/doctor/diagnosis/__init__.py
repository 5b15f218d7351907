"""Cases -> findings, in the order of cause and consequence. Pure: the same sightings give the same findings.

Imports `findings`, `matching`, `reading`. Never reads a file.
"""
