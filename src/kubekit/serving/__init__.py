"""Accepting connections: who is at the other end, how many, for how long, with how much memory."""
