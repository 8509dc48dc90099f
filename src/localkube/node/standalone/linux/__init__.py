"""System calls and netlink messages, with the standard library only."""
