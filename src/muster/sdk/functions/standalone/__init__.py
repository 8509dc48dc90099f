"""The program that runs in a replica: standard library only, sent along with the function.

Kept apart because a replica runs these files in a process without Muster; the caller uses
`sealed_record`, and `program` for how values are pickled, too.

Inside a pod this package is called `muster_function`, so its modules import each other by relative
names and nothing else of Muster. They also load on Pythons that Muster itself does not support:
the program must still be able to say that the version is the wrong one.
"""
