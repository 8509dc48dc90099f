"""The functions that Kubernetes adds to CEL, by topic, and the form in which they are declared."""
