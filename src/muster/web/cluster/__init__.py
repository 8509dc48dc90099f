"""The live objects of a cluster: informers per user, and the changes that pages wait for."""
