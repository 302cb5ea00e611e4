"""Decoding on a CUDA device: few large products, Triton kernels between, one graph a step.

Everything that a beam search needs from step to step stays on the device, so that the next step can
begin before the host has seen the last one. `GpuEngine` is the way in.
"""
