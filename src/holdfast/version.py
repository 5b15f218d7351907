from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("holdfast-spark")
except PackageNotFoundError:  # run from a bare source tree
    VERSION = "0"
