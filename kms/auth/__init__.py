"""Authentication and authorisation. Of the headers of a request, only a token counts."""
