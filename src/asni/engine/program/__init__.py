"""From steps to a program of the native core: layouts, kernels, tiles, memory."""
