"""Liftbridge: envelopes and Raft streams inside NATS messages."""

NAME = "liftbridge"
