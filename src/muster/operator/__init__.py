"""The job operator: jobs -> pods, services, gangs and status.

Reading order: actions (what can be done), seen (what one decision looks at), decide (pure: what to
do about a job), status (pure: pods -> conditions), failures (pure: what a failed pod means),
waiting (pure: why pods wait), invalid (pure: a job that makes no sense), pods (template -> pod),
gang (the group object, per dialect), kinds/ (what differs per kind of job), act (actions -> API
calls), news (what is said of them), reconcile (one job: observe, decide, act), run (everything in
one daemon).
"""
