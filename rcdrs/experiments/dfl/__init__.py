"""Decision-focused learning: a predictor of costs, trained through a fixed-depth solver layer."""
