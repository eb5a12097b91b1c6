"""A recipe in, a trained debate team and its answer to a question out. Arguments: key=value."""

import sys
import tempfile
from pathlib import Path

from seminar import team

recipe = Path(__file__).parents[1] / "recipes/mada/tiny.yaml"
folder = Path(tempfile.mkdtemp()) / "run"
team.train(recipe, *sys.argv[1:], out=folder, quiet=False)
answer = team.load(folder).ask("43+33-24")
for turns in answer.rounds:
    for turn in turns:
        print(f"{turn.agent}: {turn.text.strip()}")
print(f"The team says {answer.text}; votes {dict(answer.votes)}. Everything lies in {folder}.")
