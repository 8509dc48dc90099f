"""Carrying out actions: API calls in the order that `decide` gave, events, ssh keys."""
