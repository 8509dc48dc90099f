"""Jobs as a person sees them, from a job and its pods: instance (one pod), summary (the job)."""
