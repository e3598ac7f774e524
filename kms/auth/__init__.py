"""Authentication and authorisation. A token is the only header that is considered."""
