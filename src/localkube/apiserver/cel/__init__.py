"""CEL, the language of rules in definitions and of admission policies, as Kubernetes extends it."""
