"""SGD, Adam and AdamW of torch on the nonzeros: on the vector of a network, or in place on torch's own tensors."""
