"""Who may use the dashboard: one-time tokens, sessions, and the checks of every request."""
