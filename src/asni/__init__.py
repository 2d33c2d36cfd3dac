"""asni: sparse networks in one round of training."""
