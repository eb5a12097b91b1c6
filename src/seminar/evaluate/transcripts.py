"""Rows of episodes.jsonl, or scored episodes -> one static HTML page to read, grouped by problem."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from seminar.atomic import write_atomic
from seminar.evaluate.metrics import Scored

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #222; background: #fff; }
h2 { border-top: 1px solid #ccc; padding-top: 1rem; }
details { border-left: 3px solid #ccc; margin: .4rem 0; padding-left: .8rem; }
details.right { border-color: #009e73; } details.wrong { border-color: #d55e00; }
summary { cursor: pointer; } summary, small, p { color: #555; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .6rem; margin: .3rem 0; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; } pre { background: #262626; } summary, small, p { color: #aaa; }
}
</style>
"""


def write_transcripts(rows: Iterable[Mapping[str, Any]], path: Path, *, title: str) -> None:
    """Write the page. One row is one agent's samples of one prompt, as training logs them. Raises RunError.

    Every problem is a section with its gold answer, its rows ordered by step, stage and round; every sample
    shows its text, its reward with parts, advantage, reason and length. Models write what they like, so all
    text is escaped and the page may load nothing.
    """
    problems: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        problems.setdefault((row["task"], row["question"]), []).append(row)
    body = "\n".join(map(_problem, problems.values()))
    name = escape(title)
    page = f"{_HEAD}<title>{name}</title></head>\n<body><h1>{name}</h1>\n{body}\n</body></html>\n"
    write_atomic(path, page.encode("utf-8", "backslashreplace"))


def evaluation_rows(episodes: Iterable[Scored], *, stage: str) -> list[dict[str, Any]]:
    """Rows of played debates for `write_transcripts`: one a turn, with its verdict in place of a reward."""
    rows = []
    for one in episodes:
        task = one.episode.task
        for turn in one.episode.turns:
            verdict = one.verdicts.get(turn.key)
            sample = {
                "text": turn.text,
                "stop": turn.stop,
                "tokens": len(turn.completion_ids),
                "reason": verdict.reason if verdict else "ungraded",
            }
            rows.append(
                {
                    "stage": stage,
                    "step": one.seed,
                    "task": task.id,
                    "question": task.question,
                    "gold": task.gold,
                    "agent": turn.agent,
                    "round": turn.round,
                    "adapter": turn.adapter,
                    "adapter_version": turn.adapter_version,
                    "saw": turn.saw,
                    "samples": [sample],
                }
            )
    return rows


def _problem(rows: list[Mapping[str, Any]]) -> str:
    task, question, gold = (escape(str(rows[0][name])) for name in ("task", "question", "gold"))
    heading = f"<h2>{task}</h2>\n<pre>{question}</pre>\n<p>gold: <b>{gold}</b></p>"
    return "\n".join([heading, *(_row(row) for row in sorted(rows, key=_place))])


def _place(row: Mapping[str, Any]) -> tuple[int, str, int]:
    return row["step"], row["stage"], row["round"]


def _row(row: Mapping[str, Any]) -> str:
    where = f"{row['stage']}, step {row['step']}, round {row['round']}: {row['agent']}"
    adapter = f"adapter {row['adapter']} version {row['adapter_version']}"
    seen = [f"quoted: {', '.join(row['saw'])}"] if row.get("saw") else []
    if row.get("baseline") is not None:
        seen.append(f"share of the quoted answers that are right: {row['baseline']:.2f}")
    note = f"<p>{escape('; '.join(seen))}</p>" if seen else ""
    samples = "\n".join(_sample(sample) for sample in row["samples"])
    return f"<h3>{escape(where)} <small>({escape(adapter)})</small></h3>{note}\n{samples}"


def _sample(sample: Mapping[str, Any]) -> str:
    reason = sample["reason"] or "ungraded"
    colour = {"correct": "right", "ungraded": ""}.get(reason, "wrong")
    facts = [reason]
    if sample.get("reward") is not None:
        parts = ", ".join(f"{name} {value:+.2f}" for name, value in sample["parts"].items())
        facts.append(f"reward {sample['reward']:+.3f} ({parts})")
    if sample.get("advantage") is not None:
        facts.append(f"advantage {sample['advantage']:+.3f}")
    facts.append(f"{sample['tokens']} tokens, {sample['stop']}")
    summary = f"<summary><code>{escape(' | '.join(facts))}</code></summary>"
    return f'<details class="{colour}" open>{summary}<pre>{escape(sample["text"])}</pre></details>'
