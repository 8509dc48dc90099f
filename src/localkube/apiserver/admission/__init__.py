"""Create, update and delete of any kind; names; preconditions; quota; webhooks and policies."""
