"""`muster.run`: a function of the user's program as a job, and its result.

Reading order: run (the whole way of a call), pickling (the call as bytes), package (the file that
travels), standalone (the replica's side), job_objects (Secrets and rights), result (the caller's
side: waiting, checking, unpickling), result_keys (the keys of a user's jobs).
"""
