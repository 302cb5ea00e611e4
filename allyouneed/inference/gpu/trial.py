"""Whether Triton's kernels run on a device: it compiles with the user's tools, and not for all."""

import torch
import triton
import triton.language as tl

_SIZE = 16  # the least that a product of Triton's may have


@triton.jit
def _multiply(a, product, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    values = tl.load(a + place)
    tl.store(product + place, tl.dot(values, values))


def try_a_kernel(device: torch.device, dtype: torch.dtype) -> None:
    """Raise what a small product of matrices raises."""
    ones = torch.ones(_SIZE, _SIZE, dtype=dtype, device=device)
    product = torch.empty(_SIZE, _SIZE, device=device)
    with torch.cuda.device_of(ones):
        _multiply[(1,)](ones, product, SIZE=_SIZE)
    if not (product == _SIZE).all():
        raise RuntimeError("it computes something else than what it should")
