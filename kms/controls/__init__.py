"""Brakes: what stops the release of keys whatever their policies say. Judgement here is pure."""
