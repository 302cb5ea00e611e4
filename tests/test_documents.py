"""What the README and the guides point to is there."""

import re
from pathlib import Path

import pytest

from allyouneed.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))

    for link in links:
        assert link.startswith("https://") or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    shown = re.findall(r"^\$ allyouneed (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)

    assert set(shown) <= set(COMMANDS)


def test_the_readme_leads_to_every_guide() -> None:
    readme = PAGES[0].read_text(encoding="utf-8")

    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme] == []
