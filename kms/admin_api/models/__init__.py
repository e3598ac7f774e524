"""Bodies of the administration API, as the OpenAPI document describes them."""
