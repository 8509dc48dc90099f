"""What differs per kind of job, one module each; `table.of(job)` finds the rules of a job."""
