"""The templates that stateful sets and daemon sets have had, as ControllerRevisions."""
