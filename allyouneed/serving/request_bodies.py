"""What requests may hold, and how it is read: from JSON, forms and queries alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import from_json
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect

from allyouneed.serving.refusals import ClientGone, Refusal, bad_request

_MOST_FORM_FIELDS = 20
_URL_ENCODED, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


class Body(BaseModel):
    """Fields that are not known are left aside, as LibreTranslate does."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    api_key: str | None = Field(None, description="Where the server asks for one.")


class TranslateBody(Body):
    """LibreTranslate's /translate."""

    q: str | list[str] = Field(description="A text or several.", examples=["A dog is running."])
    source: str = Field(description='A code, or "auto".', examples=["en"])
    target: str = Field(examples=["de"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0)

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class DetectBody(Body):
    """LibreTranslate's /detect."""

    q: str | list[str] = Field(examples=["Ein Hund läuft."])

    @property
    def text(self) -> str:
        return self.q if isinstance(self.q, str) else " ".join(self.q)


@dataclass(frozen=True)
class SentFile:
    """A file in a form."""

    filename: str
    content: bytes


class FileBody(Body):
    """LibreTranslate's /translate_file."""

    file: Annotated[
        InstanceOf[SentFile], WithJsonSchema({"type": "string", "format": "binary"})
    ] = Field(description="UTF-8 text.")
    source: str
    target: str


class ModelBody(Body):
    """What to translate with, in our own endpoints."""

    model: str | None = Field(None, description="A name from /v1/models.")


class OwnTranslateBody(ModelBody):
    """/v1/translate."""

    text: str | list[str] = Field(
        description="A text or several.", examples=["A dog is running. Two cats sleep."]
    )
    source: str | None = Field(None, description='A code, or "auto".')
    target: str | None = None
    n_best: int = Field(1, ge=1, description="Hypotheses of each sentence.")
    beam_size: int | None = Field(None, ge=1, description="The model's own unless given.")
    length_penalty: float | None = Field(
        None, ge=0, le=10, description="α; the model's own unless given."
    )
    details: bool = Field(False, description="Words with confidence and attention, and tokens.")

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class StreamBody(OwnTranslateBody):
    """/v1/stream."""

    text: str = Field(examples=["A dog is running. Two cats sleep."])


class AttentionBody(ModelBody):
    """/v1/attention."""

    source: str = Field(description="One sentence.", examples=["A dog is running."])
    target: str | None = Field(None, description="Its translation; the best unless given.")
    tokens: list[str] | None = Field(None, description="The translation's tokens, instead.")
    format: Literal["json", "html"] = "json"

    @field_validator("tokens", mode="before")
    @classmethod
    def _from_form(cls, value: object) -> object:
        """A form holds a list as JSON."""
        return from_json(value) if isinstance(value, str) else value


B = TypeVar("B", bound=Body)


async def read_fields(request: Request, max_body: int) -> Mapping[str, Any]:
    """The fields of a body; those of the query where it has none."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if content_type.endswith("json"):
            return _json_object(await request.body())
        if content_type == _URL_ENCODED:
            return {**request.query_params, **_url_encoded(await request.body())}
        if content_type == _MULTIPART:
            async with request.form(
                max_files=1, max_fields=_MOST_FORM_FIELDS, max_part_size=max_body
            ) as form:
                sent = {name: await _whole(value) for name, value in form.items()}
            return {**request.query_params, **sent}
        async for _ in request.stream():  # of a kind that is not known; the query counts
            pass
    except ClientDisconnect:
        raise ClientGone from None
    return request.query_params


async def _whole(value: str | UploadFile) -> str | SentFile:
    if isinstance(value, str):
        return value
    return SentFile(value.filename or "", await value.read())


def _url_encoded(body: bytes) -> dict[str, str]:
    """By hand: Starlette takes letters that are not escaped, as curl -d sends them, for Latin-1."""
    try:
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FORM_FIELDS,
        )
    except UnicodeDecodeError:
        raise bad_request("the form is not UTF-8") from None
    except ValueError:
        raise bad_request(f"the form has more than {_MOST_FORM_FIELDS} fields") from None
    return dict(pairs)


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise bad_request(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("the JSON must be an object: {…}")
    return value


def parse_body(kind: type[B], fields: Mapping[str, Any]) -> B:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise _explained(error) from None


def _explained(error: ValidationError) -> Refusal:
    """The first of the problems; what was sent is not repeated."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = str(problem["loc"][0])
    if problem["type"] == "missing":
        return bad_request(f"missing {name} parameter")
    message = problem["msg"]
    return bad_request(f"{name}: {message[0].lower()}{message[1:]}")


def openapi_body(kind: type[Body], media_type: str = "application/json") -> dict[str, Any]:
    """How the OpenAPI document shows a body that is read by `read_fields`."""
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
