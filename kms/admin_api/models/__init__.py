"""What travels between administrators and the service, as the OpenAPI document describes it."""
