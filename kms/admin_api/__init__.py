"""Administration over HTTP, on a listener and with credentials of its own (MC-31). Nobody is anonymous here."""
