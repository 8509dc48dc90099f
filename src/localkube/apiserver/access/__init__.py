"""Authentication (which user sends a request), authorization (may they), and their secrets."""
