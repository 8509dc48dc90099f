"""Custom resource definitions, their schemas, and the resources that they add."""
