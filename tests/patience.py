"""How long a test waits for what must happen.

Nothing here takes that long, however busy the machine: whoever waits longer waits for something that hangs. It says
nothing about how long anything may take.
"""

PATIENCE = 600.0
"""Seconds."""
