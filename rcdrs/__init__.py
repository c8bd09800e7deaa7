"""Residual-Controlled Douglas-Rachford Splitting: a fixed-budget differentiable conic layer."""
