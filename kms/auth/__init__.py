"""Who somebody is, and what they may do. Nothing here is taken from a header that anybody could set, but a token."""
