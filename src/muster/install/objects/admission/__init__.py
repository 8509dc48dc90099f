"""The admission policy: obvious mistakes in jobs that the API server itself rejects, pure.

Reading order: `policy` (the objects, and which writes they check), `job_rules` (the mistakes, as
CEL expressions), `job_variables` (the parts of a job that the rules read), `cel` (words of CEL).
"""
