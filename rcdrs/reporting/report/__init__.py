"""The report: one self-contained page from whatever a run has left."""
