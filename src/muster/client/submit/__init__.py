"""From the flags or files of a submission to a job that is created whole or not at all."""
