"""Log files of any kind -> events, one `LogEvent` per entry.

Imports nothing else of the doctor. Never decides what an event means.
"""
