"""The service over HTTP: one router a noun, edge models, problem details, limits."""
