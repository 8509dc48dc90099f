"""Jobs in notebooks: a table that updates itself, and curves from the log."""
