"""Replay of the log into the expected state of the database, and comparison of both."""

from kms.operations.replay.logged_state import REPLAY, Difference, LoggedState

__all__ = ["REPLAY", "Difference", "LoggedState"]
