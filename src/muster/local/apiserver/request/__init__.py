"""What clients send: paths, options, bodies in all their forms, patches."""
