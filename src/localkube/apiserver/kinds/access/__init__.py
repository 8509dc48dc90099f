"""Who may do what: roles, bindings, service accounts, admission policies, webhooks."""
