"""The ablations: one component of controller, features or loss changed at a time."""
