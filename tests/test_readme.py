"""What README and docs tell a newcomer to type parses, and what they link to exists."""

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from seminar import config as configuration
from seminar.cli.main import app
from seminar.plan import plan

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "recipes/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page):
    return [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]


COMMANDS = [line for page in PAGES for line in blocks(page) if line.startswith("seminar ")]


def parse(command, arguments):
    """Resolve sub-commands and parse the rest as click would, without running anything."""
    if hasattr(command, "resolve_command"):
        _, inner, rest = command.resolve_command(click.Context(command), arguments)
        return parse(inner, rest)
    return command.make_context(command.name, list(arguments))


def test_readme_shows_every_command():
    shown = {shlex.split(line)[1] for line in blocks(ROOT / "README.md") if line.startswith("seminar ")}
    assert shown == set(typer.main.get_command(app).commands)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_parses(line):
    parse(typer.main.get_command(app), shlex.split(line, comments=True)[1:])


def test_a_command_with_an_unknown_option_does_not_parse():
    with pytest.raises(Exception, match="No such option"):
        parse(typer.main.get_command(app), ["plan", "x.yaml", "--no-such-option"])


@pytest.mark.parametrize("line", [line for line in COMMANDS if ".yaml" in line])
def test_a_recipe_on_a_command_line_and_its_overrides_are_valid(line):
    words = shlex.split(line, comments=True)[2:]
    recipe, overrides = words[0], [word for word in words[1:] if "=" in word]
    configuration.load(ROOT / recipe, overrides)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT / "recipes")))
def test_a_recipe_is_valid_and_at_most_forty_lines(path):
    configuration.load(path)
    assert len(path.read_text().splitlines()) <= 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_exists(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_readme_shows_the_plan_as_it_is_printed():
    recipe = ROOT / "recipes/mada/r1-distill-1.5b.yaml"
    assert plan(configuration.load(recipe)).markdown().strip() in (ROOT / "README.md").read_text()


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for line in (line for page in PAGES for line in blocks(page)):
        if line.startswith("make "):
            assert f"\n{line.split()[1]}:" in makefile, line
