"""The `arena` and `muster` commands: one file per verb, imported only when that verb is used.

Reading order: main (verb table, errors -> exit codes), verbs (the table as click sees it), cluster
(which cluster a verb talks to), find (a name -> a job or a pod), then any verb by its name. What
verbs share:

    showing   output (tables, times, notes) · paint (colour) · live (redrawn) · dumper (YAML)
              describe (a job as text and data) · listing (any kind, in the server's columns)
              events · board (TensorBoard's address) · waitline (why, and the place in line)
    top       usage (what is measured and asked for) · topnodes · topjobs
    logs      follow (one log to its end) · tail (exactly once) · chorus (many at once)
    changing  failures (all are tried) · changes (suspend, resume, scale)
              manifests, resources, send (apply and create)
    besides   settings (arena's config file) · talk (requests told) · daemon (operator, scheduler)

This is the composition root: it may import every other package, and nothing imports it.
"""
