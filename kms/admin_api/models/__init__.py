"""Bodies of the administration API, described in the OpenAPI document."""
