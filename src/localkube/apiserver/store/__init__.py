"""All objects: in memory, on SQLite, and as a stream of changes."""
