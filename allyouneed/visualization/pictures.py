"""A drawing in the format of a file."""

from allyouneed.visualization.drawing import Drawing
from allyouneed.visualization.png import png
from allyouneed.visualization.svg import svg


def picture(drawing: Drawing, form: str) -> str | bytes:
    return png(drawing) if form == "png" else svg(drawing)
