"""Findings as a page, as Markdown and as text, with secrets masked.

Imports nothing else of the doctor: findings are data by then.
"""
