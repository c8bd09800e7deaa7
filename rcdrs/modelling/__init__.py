"""From a problem as CVXPY states it to a layer."""
