"""An object's way in: its shape, its defaults, what it may be, what may change."""
