"""The kernels of decoding compile for a GPU, which needs none; the interpreter forgives more."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not made for this system")

PROGRAM = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from allyouneed.inference.gpu import attention, choosing, embedding, trial
from allyouneed.kernels import add_norm

HALF, FLOAT, INT, LONG = "*fp16", "*fp32", "*i32", "*i64"
HEADS = {"BEAMS": 4, "HEADS": 8, "D_K": 64, "D_V": 64}
KERNELS = [
    (attention._attend_to_own, [HALF] * 3 + [INT] * 3 + [FLOAT, HALF, "i32", "fp32"],
     {**HEADS, "BLOCK": 32}),
    (attention._attend_to_memory, [HALF] * 3 + [INT] * 2 + [HALF, "i32", "i32", "fp32"],
     {**HEADS, "BLOCK_BEAMS": 16, "BLOCK": 32}),
    (choosing._best_of_chunks, [HALF] + [INT] * 4 + [LONG, FLOAT, FLOAT, "i32"],
     {"BEAMS": 4, "VOCABULARY": 37000, "STRIDE": 37120, "COLUMNS": 2048,
      "PAD": 0, "BEGIN": 2, "END": 3}),
    (choosing._extend, [LONG, FLOAT, FLOAT, INT, INT, FLOAT] + [INT] * 4 + ["i32"],
     {"BEAMS": 4, "CHUNKS": 19, "BLOCK_BEAMS": 4, "BLOCK_CHUNKS": 32, "BLOCK_KEYS": 128,
      "BLOCK": 64, "END": 3}),
    (embedding._embed_last, [INT] * 3 + [HALF, FLOAT, HALF, "fp32"],
     {"BEAMS": 4, "WIDTH": 512, "BLOCK": 512}),
    (add_norm._add_norm, [HALF] * 2 + [FLOAT] * 3 + [HALF] * 3 + [LONG, "fp32", "fp32", "i32"],
     {"HAS_BIAS": True, "SAVED": False, "WIDTH": 512, "BLOCK": 512, "ROWS": 4}),
    (trial._multiply, [HALF, FLOAT], {"SIZE": 16}),
]
for kernel, types, constants in KERNELS:
    kinds = types + ["constexpr"] * len(constants)
    signature = dict(zip(kernel.arg_names, kinds, strict=True))
    source = ASTSource(kernel, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"], kernel
"""


def test_they_compile() -> None:
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "TRITON_INTERPRET": "0"}

    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == 0, done.stderr
