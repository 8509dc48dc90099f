"""Where objects are kept: in memory, on SQLite, and as a stream of changes."""
