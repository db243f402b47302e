"""Commands of `kappa`, one module each."""
