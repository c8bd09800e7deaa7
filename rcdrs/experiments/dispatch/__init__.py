"""Forecast-aware energy dispatch: the network, its scenarios, methods and metrics."""
