"""The dashboard: pages about a cluster, made on the server from the Kubernetes API alone.

`run` serves it, `app` has the table of pages. A page reads the live objects (`cluster`), calls a
pure view (`views`) and renders a template. `access` decides who may see it.
"""
