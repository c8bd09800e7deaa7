"""The paper artifact: its configuration, results by key, what is released, and how jobs run."""
