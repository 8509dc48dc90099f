"""One module per page: read the request, take the live objects, call the view, render."""
