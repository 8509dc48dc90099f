"""Carrying out decisions: executor (actions -> API calls), events (about results), ssh_keys."""
