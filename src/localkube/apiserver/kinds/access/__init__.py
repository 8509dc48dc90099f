"""Who may do what: roles, bindings and service accounts."""
