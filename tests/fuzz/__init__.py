"""Fuzzing: damaged bytes for every decoder, and properties of the results (docs/security.md, "Fuzzing").

``python -m tests.fuzz TARGET`` runs one target, guided by coverage; ``python -m tests.fuzz`` lists the targets.
Inputs that once failed are in ``regressions`` and stay tests.
"""
