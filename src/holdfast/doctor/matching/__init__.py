"""What the rules see in events, added up in bounded memory: from millions of events to one case per job.

Imports `reading`. Rules are given to it; it knows none.
"""
