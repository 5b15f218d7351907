"""What a run reports about itself: alarms, status, state file, work that hangs, findings in its history.

Imports `ownership`. Never blocks the thread that decides, and never harms the pipeline.
"""
