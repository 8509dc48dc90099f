"""Create, update and delete of any kind; names; preconditions; quota."""
