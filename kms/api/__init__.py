"""HTTP API of the service: one router per noun, edge models, problem details, limits."""
