"""Logs of jobs: choose a log, read or follow it; the attempts that outlive their pods."""
