"""Portfolios of real stocks: returns are predicted, and a robust portfolio follows week by week."""
