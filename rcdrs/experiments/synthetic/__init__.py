"""The synthetic conic benchmarks: nine cases with known solutions."""
