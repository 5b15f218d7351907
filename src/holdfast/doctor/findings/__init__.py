"""The knowledge base: one module per finding."""
