"""Configuration and storage: config maps, secrets, volumes, claims and their classes."""
