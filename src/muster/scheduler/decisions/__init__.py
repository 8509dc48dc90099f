"""What to do about one gang: no await, no client, the clock is an argument."""
