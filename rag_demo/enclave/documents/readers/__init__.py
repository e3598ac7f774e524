"""One module a format, each with a function ``read(data, out)``; imported before the worker confines itself."""
