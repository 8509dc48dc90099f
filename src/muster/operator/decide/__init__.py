"""What must change for one job: pure functions from job and observed objects to actions."""
