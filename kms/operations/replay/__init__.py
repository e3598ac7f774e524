"""Replay of the log into the state that the database must have, and a comparison of both."""

from kms.operations.replay.logged_state import REPLAY, Difference, LoggedState

__all__ = ["REPLAY", "Difference", "LoggedState"]
