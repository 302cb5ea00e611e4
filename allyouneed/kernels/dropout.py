"""Which values dropout keeps: a hash of their place, so that no mask is ever stored."""

import triton
import triton.language as tl


@triton.jit
def _mixed(bits):
    """Every bit of the result depends on every bit of the argument (32 bits, unsigned)."""
    bits = bits ^ (bits >> 16)
    bits = bits * 0x7FEB352D
    bits = bits ^ (bits >> 15)
    bits = bits * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def kept(place, seed, dropout):
    """True with probability 1 − dropout, for every place another draw.

    A cheap hash rather than Triton's Philox, whose ten rounds would cost more than all else
    that a memory-bound kernel does.
    """
    key = tl.load(seed).to(tl.uint32)
    bits = _mixed(_mixed(place.to(tl.uint32) ^ key) + key)
    return (bits >> 8).to(tl.float32) * (1 / 16777216) >= dropout
