"""What the rules recognise in events, aggregated in bounded memory: from millions of events to one case per job.

Imports `reading`. Never knows a rule: rules are passed in.
"""
