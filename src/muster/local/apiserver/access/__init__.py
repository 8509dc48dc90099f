"""Who sends a request (authentication) and what they may do (authorization)."""
