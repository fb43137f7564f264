"""The groups of rows that torch_kernels.py measures, and what they are measured with."""
