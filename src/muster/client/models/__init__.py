"""Models that jobs exported: list them, download a version, ask one for a prediction."""
