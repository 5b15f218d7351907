"""Alarms as messages to people: what a message says, when it is sent, and how it reaches them.

Imports `alarm`, `errors`, `finding` and `showing`. Never decides whether there is an alarm, and never starts a thread.
"""
