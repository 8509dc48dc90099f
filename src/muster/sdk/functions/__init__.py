"""`muster.run`: a function of the user's program as a job, and its result.

Reading order: run (the whole way of a call), own_modules, pickling and unpicklable (the call as
bytes), package (the file that travels), boot and standalone (the replica's side), job_objects
(Secrets and rights), result and outcome (the caller's side: waiting, checking, unpickling),
result_keys (the keys of a user's jobs).
"""
