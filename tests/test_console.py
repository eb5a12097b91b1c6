"""What a person sees."""

import io

import rich.console

from seminar.console import Console, clean, shorten

ROW = {
    "agent": "critic-0",
    "step": 3,
    "task": "t1",
    "question": "What is [bold]2+2[/bold]?",
    "gold": "4",
    "baseline": 1 / 3,
    "samples": [
        {
            "text": "It is\x1b[31m 4",
            "stop": "eos",
            "tokens": 6,
            "parts": {"accuracy": 2.0, "length": -0.5},
            "reward": 1.5,
            "advantage": 5 / 6,
        },
        {"text": "Hm", "stop": "length", "tokens": 9, "parts": None, "reward": None, "advantage": None},
    ],
}


def plain(*, quiet: bool = False, seconds: list[float] | None = None) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    ticks = iter(seconds or [0.0] * 9)
    out = rich.console.Console(file=file, width=40)
    return Console(quiet=quiet, out=out, clock=lambda: next(ticks)), file


def test_a_step_is_one_plain_line_where_there_is_no_terminal() -> None:
    # 2 steps in 10 s, 4 to go: 20 s left
    console, file = plain(seconds=[0.0, 10.0])
    console.stage("generator-0", total=6)
    console.step(2, {"reward": 0.41234, "accuracy": 0.25, "lr": 1e-4}, tokens_s=1234.5)
    assert file.getvalue() == (
        "generator-0: 6 steps\ngenerator-0 2/6  reward 0.412  accuracy 0.25  1,234 tokens/s  0:00:20 left\n"
    )


def test_time_left_of_a_resumed_stage_counts_only_what_was_played_now() -> None:
    # resumed at 4 of 10; 1 step took 5 s, 5 to go: 25 s left
    console, file = plain(seconds=[100.0, 105.0])
    console.stage("generator-0", total=10, done=4)
    console.step(5, {"nll": 2.0})
    assert file.getvalue() == (
        "generator-0: 10 steps, goes on after step 4\ngenerator-0 5/10  nll 2  0:00:25 left\n"
    )


def test_an_episode_shows_rewards_parts_and_advantages_of_every_sample() -> None:
    console, file = plain()
    console.episode(ROW)
    assert file.getvalue() == (
        "── critic-0 at step 3, task t1\n"
        "   question: What is [bold]2+2[/bold]?\n"
        "   gold: 4, right among the quoted answers: 0.33\n"
        "   [0] reward +1.500 (accuracy 2.00, length -0.50)  advantage +0.833  6 tokens, eos\n"
        "       It is\\x1b[31m 4\n"
        "   [1] reward none (unscored)  advantage none  9 tokens, length\n"
        "       Hm\n"
    )


def test_quiet_shows_nothing() -> None:
    console, file = plain(quiet=True)
    with console:
        console.stage("s", total=1)
        console.step(1, {})
        console.episode(ROW)
        console.note("x")
    assert file.getvalue() == ""


def test_a_terminal_shows_a_bar_a_stage_and_gets_its_cursor_back() -> None:
    file = io.StringIO()
    with Console(out=rich.console.Console(file=file, force_terminal=True, width=120)) as console:
        console.stage("generator-0", total=2)
        console.step(2, {"reward": 0.5}, tokens_s=70)
        console.stage("critic-[0]", total=3, done=1)
        console.note("a [red]note[/red]")
    shown = file.getvalue()
    for part in ("generator-0", "2/2", "reward 0.5  70 tokens/s", "critic-[0]", "1/3", "a [red]note[/red]"):
        assert part in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # cursor shown after it was hidden


def test_a_model_cannot_steer_the_terminal_or_reorder_a_line() -> None:
    assert clean("a\x1b]0;x\x07\r\x9b2J\u202eb\ud800\tc\n") == "a\\x1b]0;x\\x07\\r\\x9b2J\\u202eb\\ud800\tc\n"
    assert clean("π ≈ 3.14, 数学 👩‍🏫 \\boxed{4}") == "π ≈ 3.14, 数学 👩‍🏫 \\boxed{4}"


def test_a_long_text_keeps_head_and_tail_and_counts_the_rest() -> None:
    text = "h" * 200 + "m" * 1234 + "t" * 400
    assert shorten(text) == "h" * 200 + " [… 1,234 characters …] " + "t" * 400
    assert shorten("h" * 600) == "h" * 600
