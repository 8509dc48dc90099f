"""The controller of batch/v1 Jobs."""
