"""Looking for what is wrong with Muster on a cluster, and for the smallest fix.

Reading order: `facts` (what is read from the cluster), `rights` (those that are missing), `checks`
(pure, but for `examine`, which reads the cluster and runs all of them), and `fixes` (commands).

Kept apart because each is a noun that a reader looks for, and together they would be 1,000 lines.
"""
