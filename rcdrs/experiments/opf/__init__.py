"""Optimal power flow over a real year: one hour after the other, on a network whose lines bind."""
