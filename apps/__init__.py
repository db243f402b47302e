"""Entry points: settings -> source -> pipeline -> sink, the `kappa` command, and the local stack."""
