"""What holdfast costs, measured: `make bench`; `python -m bench --quick` for a first look. See docs/benchmarks.md."""
