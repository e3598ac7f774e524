"""Changes that take several named people: proposals, signatures over them, and what is done once enough have signed."""
