"""Who is asking, how the server knows, and what they may do."""
