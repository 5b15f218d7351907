"""One module per system."""
