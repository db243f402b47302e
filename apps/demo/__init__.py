"""`kappa demo`: the whole chain on a simulated telecom cloud, every incident beside the fault that caused it.

`run` starts everything and leads through the acts, `watch` reads how far the chain is, `view` draws it, `judge` says at
the end whether the chain did what it must.
"""
