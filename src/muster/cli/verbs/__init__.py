"""One file per verb, named as the verb. A verb reads flags, calls `muster.client`, prints."""
