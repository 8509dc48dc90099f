"""A real Kubernetes control plane on loopback, for tests and benchmarks.

Reading order: `pin` (which versions), `build` (their binaries, cached), `cluster` (ControlPlane:
start it, break it, stop it), `fixture` (for pytest). Beneath `cluster`: `settings` (flags and
files), `certificates`, `processes`, `wire`; `stages.yaml` says what kwok pretends.
"""
