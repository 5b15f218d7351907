"""The same pipelines on Flink, plain Spark and holdfast, side by side, also under faults: `make bench-peers`.

`pipeline` says what is computed and what the right answer is, `systems` how each system runs it, `faults` what is done
to it. Records go to `recorded/`; `report` makes docs/comparison.md of them.
"""
