"""The command line: a command for each stage, and those about results."""
