"""One module per fault."""
