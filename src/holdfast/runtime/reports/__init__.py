"""What a run says of itself: alarms, its status, its state file, what hangs, what its history shows.

Imports `ownership`. Never blocks the thread that decides, and never harms the pipeline.
"""
