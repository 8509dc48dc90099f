"""Tools of others, unchanged, on the local cluster."""
