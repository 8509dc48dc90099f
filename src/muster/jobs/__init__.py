"""What a job is: pure functions from manifests and pods to meaning, with no I/O and no clock.

Reading order: shapes (the table of job kinds), job (the internal form), forms (any manifest -> a
job), fields and templates (parts of manifests), mpi (MPIJob's own shapes), names (what a job's
objects are called), column (kubectl's STATUS of a pod), cause (how a pod failed), view (job and
pods -> what a person sees), build (flags -> manifest).
"""
