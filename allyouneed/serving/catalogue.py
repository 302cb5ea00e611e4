"""The models that are loaded: which are there, and which one is meant."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from allyouneed.serving.refusals import bad_request
from allyouneed.text.language import language_name, recognise
from allyouneed.translator import Translator

AUTO = "auto"
_TEXT_TO_RECOGNISE = 2_000  # characters; more would not change the answer


@dataclass(frozen=True)
class Recognised:
    language: str
    confidence: float  # in percent, as LibreTranslate has it


@dataclass(frozen=True)
class Choice:
    """A model, and the language that it was chosen for if that had to be recognised."""

    name: str
    translator: Translator
    recognised: Recognised | None = None


class Catalogue:
    """At least one model; where several would do, the first is taken."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        self.translators = translators

    def languages(self) -> list[str]:
        """Codes, in the order of the models."""
        pairs = ((it.source_language, it.target_language) for it in self.translators.values())
        return list(dict.fromkeys(code for pair in pairs for code in pair))

    def targets(self, source: str) -> list[str]:
        return self._languages(it.target_language for it in self._from(source))

    def sources(self, target: str | None = None) -> list[str]:
        return self._languages(
            it.source_language
            for it in self.translators.values()
            if target in (None, it.target_language)
        )

    def resolve(self, code: str) -> str:
        """A loaded language's code; "en-US" and "EN" mean "en" where no model has their own."""
        loaded = self.languages()
        for spelling in (code, code.lower(), code.replace("_", "-").partition("-")[0].lower()):
            if spelling in loaded:
                return spelling
        raise bad_request(
            f"{code[:50]} is not supported; the loaded languages are {', '.join(loaded)}"
        )

    def between(self, source: str, target: str) -> Choice:
        """The model of a pair of loaded languages."""
        for name, translator in self.translators.items():
            if (translator.source_language, translator.target_language) == (source, target):
                return Choice(name, translator)
        raise bad_request(
            f"{language_name(target)} ({target}) is not available as a target language "
            f"from {language_name(source)} ({source})"
        )

    def choose(
        self, text: str, model: str | None, source: str | None, target: str | None
    ) -> Choice:
        """The model that is named, or the first that fits the languages."""
        if model is not None:
            return self._named(model)
        if target is not None:
            target = self.resolve(target)
        recognised = None
        if source == AUTO:
            recognised = recognise_best(text, self.sources(target))
            source = recognised.language
        elif source is not None:
            source = self.resolve(source)
        for name, translator in self.translators.items():
            if source in (None, translator.source_language) and target in (
                None,
                translator.target_language,
            ):
                return Choice(name, translator, recognised)
        raise bad_request(f"no model translates from {source} to {target}; see /v1/models")

    def _named(self, model: str) -> Choice:
        if model not in self.translators:
            raise bad_request(f"no model is called {model[:50]}; see /v1/models")
        return Choice(model, self.translators[model])

    def _from(self, source: str) -> list[Translator]:
        return [it for it in self.translators.values() if it.source_language == source]

    @staticmethod
    def _languages(codes: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(codes))


def recognise_all(text: str, languages: Iterable[str]) -> list[Recognised]:
    """All of the languages, the likeliest first."""
    found = recognise(text[:_TEXT_TO_RECOGNISE], languages)
    return [Recognised(code, round(100 * probability, 1)) for code, probability in found]


def recognise_best(text: str, languages: Iterable[str]) -> Recognised:
    return recognise_all(text, languages)[0]
