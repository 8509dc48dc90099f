"""The fields of a manifest that only one kind of job has."""
