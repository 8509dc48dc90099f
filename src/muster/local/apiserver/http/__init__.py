"""What a request says: path, options, accepted form, body."""
