"""Administration over HTTP, on a separate listener with separate credentials; every caller is identified (MC-31)."""
