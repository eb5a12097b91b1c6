"""Reference solutions of HumanEval -> programs judged a second, for one worker and for two.

python benchmarks/sandbox.py ../shared/data/humaneval.jsonl
"""

import sys
import time

from seminar.rewards.execution import CodeGrader
from seminar.rewards.sandbox import KINDS
from seminar.tasks.named import load

tasks = load("humaneval", path=sys.argv[1]).tasks
answers = [(task, f"```python\n{task.meta['solution']}\n```", "eos") for task in tasks]
for kind in KINDS:
    for workers in (1, 2):
        grader = CodeGrader(workers=workers, sandbox=kind)
        start = time.perf_counter()
        verdicts = grader.grade(answers)
        seconds = time.perf_counter() - start
        correct = sum(verdict.correct for verdict in verdicts)
        print(
            f"{kind:10} {workers} workers: {len(answers) / seconds:5.1f} a second "
            f"({correct} of {len(answers)} correct, {seconds:.1f} s)"
        )
