"""Objects of a cluster as pages show them: pure functions, one module per page."""
