"""Who may do what: roles, bindings, admission policies, webhooks."""
