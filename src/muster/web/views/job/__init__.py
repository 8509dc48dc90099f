"""The parts of the page of a job: logs, curves, cluster spec."""
