"""Triton kernels and CUDA graphs that training and decoding share."""
