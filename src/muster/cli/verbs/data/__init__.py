"""Verbs about the volumes that jobs mount and the models that they export."""
