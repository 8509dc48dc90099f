"""The node: pods bound to this machine become processes in namespaces of their own.

Reading order: agent (what runs), loop (THE POD LOOP), decide (what to do about a pod), status (what
to tell about it), spec (a pod as read here), env, volumes and sources (what a container is given),
hosts and names (who is called what), nodes and machine (what is offered), backend and logs (what
the API server asks for), events, interpreter; then runtime/ (how pods run) and standalone/ (the
programs that outlive the daemon).
"""
