"""The training step of `allyouneed.model` by hand: few large products, Triton kernels between.

The same mathematics, forward and backward, for CUDA devices. `FusedTransformer` works on the
parameters of a plain `Transformer`, which stays the reference that it is tested against.
"""
