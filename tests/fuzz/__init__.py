"""Fuzzing: damaged bytes for every decoder, and what must hold of what comes out (docs/security.md, "Fuzzing").

``python -m tests.fuzz TARGET`` runs one target, guided by coverage; ``python -m tests.fuzz`` tells which there are.
What was found once is in ``regressions``, and is a test for ever.
"""
