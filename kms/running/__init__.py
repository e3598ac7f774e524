"""Processes of the service: servers, workers, upkeep, metrics, logs."""
