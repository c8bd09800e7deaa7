"""Training a layer: what it is trained for, and the one loop that does it."""
