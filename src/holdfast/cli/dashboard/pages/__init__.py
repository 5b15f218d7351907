"""The pages, one module each: what was read, as HTML that works without script as far as reading goes.

Imports `markup`, `charts` and `judging`. Pure: never reads a home or a clock.
"""
