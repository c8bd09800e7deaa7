"""The rollout as one compiled pass on the CPU: K steps with their controller, and back."""
