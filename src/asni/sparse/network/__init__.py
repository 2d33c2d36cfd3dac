"""From steps and masks to a program of native kernels: layouts, tables of nonzeros, one vector of trained numbers."""
