"""The paper's experiments: data, methods and metrics of each."""
