"""Models that the tests of the exports share, and sentences to translate with the shipped one."""

import functools
from collections.abc import Sequence

import torch
from tiny_translator import tokenizer

from allyouneed.checkpoint import LoadedModel, Manifest, load_model
from allyouneed.config import DecodingConfig, ModelConfig
from allyouneed.model import Transformer
from allyouneed.models import find_model
from allyouneed.rows import Rows, one_sentence_a_row
from allyouneed.text.tokenizer import UNKNOWN

CONFIG = ModelConfig(
    vocab_size=330, n_layers=3, n_decoder_layers=2, d_model=16, d_ff=24, n_heads=4, d_k=4, d_v=4
)
SENTENCES = [
    "A boy with a yellow umbrella waits for the bus.",
    "Two women are drinking coffee at a small table.",
    "An old man is feeding pigeons in the park.",
    "The girl in the green dress jumps over a puddle.",
    "Three children are building a castle out of sand.",
    "A black cat sleeps on the roof of a car.",
    "Several people are waiting in line at a bakery.",
    "A mechanic is repairing the wheel of a motorcycle.",
    "A woman with curly hair plays the violin on a bridge.",
    "Four friends are sitting around a campfire at night.",
    "A brown horse runs across a field of flowers.",
    "The musician closes his eyes while he is singing.",
    "A child holds a balloon and laughs.",
    "Two men in helmets are climbing a steep rock.",
    "A waiter carries five plates through a crowded restaurant.",
    "A little boy is hiding behind a big tree.",
    "A painter in white clothes is standing on a ladder.",
    "People are dancing in the street.",
    "A dog with a stick in its mouth is swimming in a lake.",
    "A woman takes a picture of her friends in front of a fountain.",
    "The goalkeeper catches the ball.",
    "A man wearing sunglasses is reading a newspaper on a bench.",
    "Many bicycles are standing in front of a red brick house.",
    "A teenager does a trick on his skateboard.",
    "A baby is crying in the arms of its grandmother.",
    "Workers are fixing the roof of a tall building.",
    "A family is having a picnic under the trees.",
    "A young woman is pushing a shopping cart through the snow.",
    "Two boys in soccer uniforms are fighting for the ball.",
    "A fisherman in a boat pulls his net out of the water.",
]


def random_model(config: ModelConfig = CONFIG) -> LoadedModel:
    """A model in which no gain is one and no bias zero, so that each one matters."""
    torch.manual_seed(0)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    manifest = Manifest(
        source_language="en",
        target_language="de",
        max_source_tokens=20,
        model=config,
        decoding=DecodingConfig(max_extra_tokens=5),
    )
    return LoadedModel(model, tokenizer(), manifest)


@functools.cache
def shipped_model() -> LoadedModel:
    return load_model(find_model("en-de"))


def model_that_prefers(*ids: int) -> LoadedModel:
    """A model to which these are by far the most probable tokens, whatever it reads."""
    ours = random_model()
    last = ours.model.decoder.layers[-1].get_submodule("feed_forward_norm.norm")
    with torch.no_grad():
        preferred = ours.model.embedding.weight[list(ids)].sum(0)
        last.get_parameter("bias").copy_(100 * preferred)
    return ours


def random_rows(lengths: Sequence[int], first: int) -> Rows:
    """A sentence of each length, with `first` before random ids."""
    rest = [torch.randint(UNKNOWN + 1, CONFIG.vocab_size, (length - 1,)) for length in lengths]
    return one_sentence_a_row([[first, *ids.tolist()] for ids in rest])
