"""Models for other programs: Hugging Face transformers, CTranslate2 and ONNX runtimes."""

from allyouneed.interop.agreement import Agreement, compare
from allyouneed.interop.ctranslate2 import CTranslate2
from allyouneed.interop.formats import ExportedModel, Format, export
from allyouneed.interop.huggingface import HuggingFace
from allyouneed.interop.onnx import Onnx

__all__ = [
    "Agreement",
    "CTranslate2",
    "ExportedModel",
    "Format",
    "HuggingFace",
    "Onnx",
    "compare",
    "export",
]
