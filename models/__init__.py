"""Online Bayesian models: pure NumPy and SciPy, no Spark, no I/O, no clock, no randomness.

Every model is a step function over packed state arrays: score the window with what was known before it, then learn it.
"""
