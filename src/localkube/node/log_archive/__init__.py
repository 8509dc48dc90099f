"""Logs of jobs that outlive their pods: the archive on disk, its bound, and its cleaning."""
