from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("holdfast")
except PackageNotFoundError:  # run from a bare source tree
    VERSION = "0"
