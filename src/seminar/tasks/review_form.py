"""Text of a review -> five sub-scores, an overall score and feedback, or None. Pure text, linear time.

The form (criteria: DRAFT-RL, arXiv 2511.20468, section 4; the JSON is ours): one JSON object with a number in
[0, 1] for each criterion and for `overall`, and a text `feedback`. Models break JSON in many ways, so this
reader wants no more than pairs `"key": value` between braces. It goes through the text once: 100 kB of noise
cost one pass.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

CRITERIA = ("coherence", "step_validity", "relevance", "completeness", "correctness")
"""The five sub-scores, by their JSON keys."""
OVERALL = "overall"
FEEDBACK = "feedback"

_NUMBER = r"-?(?:\d{1,20}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,3})?(?:[ ]?%)?"
_PIECE = re.compile(
    rf"""(?P<brace>[{{}}])
    | "(?P<key>[\w\ -]{{1,40}})" \s{{0,20}} : \s{{0,20}}
      (?: "(?P<text>(?:[^"\\]|\\.)*+) (?:"|\\?\Z) | (?P<number>{_NUMBER}) (?=[ \t]{{0,20}}[,}}\]\r\n]) )?""",
    re.VERBOSE | re.DOTALL,
)
_SCORE = re.compile(rf"\s*(?P<number>{_NUMBER})\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What one reviewer says about one draft."""

    scores: Mapping[str, float | None]
    """Each of `CRITERIA` in [0, 1]; None where it was not given or cannot be read."""
    overall: float
    """In [0, 1]."""
    feedback: str = ""


def parse_review(text: str) -> Review | None:
    """Read a review; None (missing, which is not 0) where no object has a readable `overall`.

    The object may stand in prose or in a code fence; the last readable one counts, for a reviewer may think
    or quote first. A number may be a text or a percentage. A number outside [0, 1] is on a scale nobody
    named, one cut by the end of the text may be half a number; both count as not given, and so do `true` and
    NaN. Sub-scores may stand in an inner object. A missing sub-score is None and costs nothing else.
    """
    found: Review | None = None
    pairs: dict[str, str | None] = {}
    depth = 0
    for piece in _PIECE.finditer(text):
        if piece["brace"] == "{":
            pairs = pairs if depth else {}
            depth += 1
        elif piece["brace"] == "}":
            depth = max(0, depth - 1)
            found = found if depth else _review(pairs) or found
        elif depth:
            value = piece["text"] if piece["number"] is None else piece["number"]
            pairs[re.sub(r"[ -]", "_", piece["key"]).lower()] = value
    return (_review(pairs) or found) if depth else found


def write_review(review: Review) -> str:
    """The review in its own form, as short as it gets; `parse_review` reads it back.

    Feedback stands first, so that a model finds the fault before it gives marks, and the overall mark right
    behind it. Empty feedback and criteria that are None are left out: `{"overall":0.5,"coherence":1}`.
    """
    given = {OVERALL: review.overall, **{name: review.scores[name] for name in CRITERIA}}
    scores = {k: int(v) if v == int(v) else v for k, v in given.items() if v is not None}
    feedback = {FEEDBACK: review.feedback} if review.feedback else {}
    return json.dumps({**feedback, **scores}, ensure_ascii=False, separators=(",", ":"))


def _review(pairs: Mapping[str, str | None]) -> Review | None:
    overall = _score(pairs.get(OVERALL))
    if overall is None:
        return None
    scores = {name: _score(pairs.get(name)) for name in CRITERIA}
    return Review(scores=scores, overall=overall, feedback=_plain(pairs.get(FEEDBACK) or ""))


def _score(value: str | None) -> float | None:
    found = _SCORE.fullmatch(value) if value is not None else None
    if found is None:
        return None
    number = found["number"]
    score = float(number.rstrip(" %")) / (100 if number.endswith("%") else 1)
    return abs(score) if 0 <= score <= 1 else None


def _plain(text: str) -> str:
    """A JSON string without its escapes; as it stands where they are broken."""
    with suppress(ValueError):
        text = json.loads(f'"{text}"', strict=False)
    return text.encode(errors="replace").decode().strip()
