"""The doctor on Spark: files are split into pieces, read by workers, followed as they grow.

The only part of the doctor that imports PySpark. Never decides what an event means.
"""
