"""Tests of Kubeflow's TrainingClient, run by a pytest of the training environment.

The client needs an older `kubernetes` than Muster's own tests. So these modules import nothing of
Muster, and `runner.py` runs them in the environment that has the client.
"""
