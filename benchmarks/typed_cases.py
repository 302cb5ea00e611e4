"""How a model copes with text as people type it: single words, capitals, typos, URLs, emoji, …

The cases are in benchmarks/typed, a file for each pair of languages. Nothing here says how good a
translation is, only that what must survive does, and that nothing was made up, looped or left.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import yaml

from allyouneed.errors import UserError
from allyouneed.evaluation.lines import write_lines
from allyouneed.evaluation.typed_cases import Verdict, judge, load_cases
from allyouneed.inference.engines import ENGINES
from allyouneed.translator import Translator

CASES = Path(__file__).parent / "typed"


def table(verdicts: Sequence[Verdict]) -> str:
    """How many cases of every kind pass."""
    kinds: dict[str, list[bool]] = defaultdict(list)
    for verdict in verdicts:
        kinds[verdict.case.kind].append(not verdict.faults)
    rows = [*kinds.items(), ("all", [passed for of_kind in kinds.values() for passed in of_kind])]
    return "\n".join(
        f"{kind:<22}{sum(passed):>4} of {len(passed):<4}{sum(passed) / len(passed):>5.0%}"
        for kind, passed in rows
    )


def failures(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What is wrong with each case that fails, and the translation it is wrong with."""
    return {
        verdict.case.name: f"{'; '.join(verdict.faults)} → {verdict.translation[:200]}"
        for verdict in verdicts
        if verdict.faults
    }


def record(verdict: Verdict) -> dict[str, object]:
    return {
        "kind": verdict.case.kind,
        "source": verdict.case.source,
        "translation": verdict.translation,
        "faults": verdict.faults,
    }


def run(arguments: argparse.Namespace) -> None:
    translator = Translator.load(
        arguments.model, arguments.device, engine=arguments.engine, threads=arguments.threads
    )
    languages = f"{translator.source_language}-{translator.target_language}"
    verdicts = judge(translator, load_cases(arguments.cases or CASES / f"{languages}.yaml"))
    failed = failures(verdicts)
    sys.stdout.writelines(f"{name}\n    {fault}\n" for name, fault in failed.items())
    print(table(verdicts))
    if arguments.failures:
        listed = yaml.safe_dump(failed, allow_unicode=True, sort_keys=False, width=100)
        write_lines(arguments.failures, [listed.rstrip("\n")])
    if arguments.json:
        records = [record(verdict) for verdict in verdicts]
        write_lines(arguments.json, [json.dumps(records, ensure_ascii=False, indent=2)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a model folder or a shipped model's name")
    parser.add_argument("--cases", type=Path, help="default: those of the model's languages")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto", choices=ENGINES)
    parser.add_argument("--threads", type=int, help="of the native engine; default: all cores")
    parser.add_argument("--failures", type=Path, help="write what failed, as known failures")
    parser.add_argument("--json", type=Path, help="write every translation and its faults")
    try:
        run(parser.parse_args())
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
