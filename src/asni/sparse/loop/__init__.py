"""Training on the nonzeros in a loop of the user's own: `asni.sparse_training`."""
