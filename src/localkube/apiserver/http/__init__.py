"""Reading a request: path, options, accepted form, body."""
