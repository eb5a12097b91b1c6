"""All stages of DRAFT-RL on a model of a few thousand parameters: counts, stop and resume, ablations."""

import io
import json
import re
import shutil
import sys
from copy import deepcopy

import pytest
import rich.console
import yaml
from run_files import contents, train_through_kills
from small_run import draft_recipe, teach_forms, write_model
from transformers import BertConfig, BertModel
from typer.testing import CliRunner

from seminar import build, rollout, team
from seminar import config as configuration
from seminar.cli.main import app, main
from seminar.console import Console
from seminar.errors import ConfigError
from seminar.jsonl import read_rows
from seminar.methods import draft_rl
from seminar.plan import plan
from seminar.rewards.reading import read, shown
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.types import Task


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    teach_forms(folder)
    return folder


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run(folder, draft_recipe(model))
    return folder


def run(folder, tree, *, stop_after=None, console=None):
    """Train in this process; `stop_after`: ask for a stop once that step of the team is logged."""
    config = configuration.parse(tree)
    with (
        RunFolder.create(folder, config=configuration.dump(config), facts={}) as made,
        StopRequest(say=print) as stop,
    ):
        if stop_after is not None:
            log = made.log_metrics

            def counted(row):
                log(row)
                stop.requested = stop.requested or (row["stage"] == "team" and row["step"] == stop_after)

            made.log_metrics = counted
        return draft_rl.train(config, run=made, console=console or Console(quiet=True), stop=stop)


def changed(model, **values):
    """The recipe with `section__key=value` in place."""
    tree = deepcopy(draft_recipe(model))
    for name, value in values.items():
        section, _, key = name.partition("__")
        tree[section] = {**tree.get(section, {}), key: value}
    return tree


def metrics(folder):
    return [row for row in read_rows(folder / "metrics.jsonl") if row["stage"] == "team"]


def test_a_run_leaves_every_artefact(finished):
    names = {"metrics.jsonl", "episodes.jsonl", "report.md", "results.json", "reward_model"}
    assert names <= {p.name for p in finished.iterdir()}
    assert {p.name for p in (finished / "adapters").iterdir()} == {"warmup", "agent-0", "agent-1"}


def test_three_agents_and_five_drafts_make_15_drafts_and_30_reviews_without_the_gold(model):
    config = configuration.parse(changed(model, drafts__agents=3, drafts__drafts=5, limits__prompt=500))
    world = build.world(config.base)
    protocol = build.drafts(config)
    blank = build.draft_team(world, config, dict.fromkeys(protocol.agents))
    task = Task(id="t", question="12+30", gold="98765", meta={"solution": "98765"})
    (episode,) = rollout.play([task], protocol, blank, seed=(0,))
    assert episode.failure is None
    reading = read(episode, protocol)
    assert len(reading.candidates) == 15
    reviews = [turn for turn in episode.turns if turn.role == "reviewer"]
    assert len(reviews) == 30
    assert all(not turn.notes["target"].startswith(turn.agent) for turn in reviews)
    assert [c.turn.temperature for c in reading.candidates[:5]] == [0.2, 0.35, 0.5, 0.65, 0.8]
    assert not any("98765" in world.chat.decode(turn.prompt_ids) for turn in episode.turns)
    assert not any("98765" in str(one) for one in shown(reading))
    assert rollout.verdicts([episode], world.grader)[0].keys() == {c.turn.key for c in reading.candidates}


def test_every_step_shows_collapse_blind_spots_and_trust_in_the_judge(finished):
    rows = metrics(finished)
    assert len(rows) == 3
    wanted = {
        "selected", "vote", "oracle", "distinct_answers", "word_distance", "agreement", "unanimous_wrong",
        "valid",
        "no_winner", "missing_reviews", "judge/auc", "judge/truth", "judge/peers", "judge/calibration",
        "wins/agent-0", "wins/agent-1", "wins/strategy/direct", "wins/strategy/backwards",
    }  # fmt: skip
    for row in rows:
        assert wanted <= row.keys()
        assert row["oracle"] >= row["selected"]


def test_engine_and_trainer_agree_at_every_temperature_and_nothing_is_clipped_on_policy(finished):
    for row in metrics(finished):
        for agent in ("agent-0", "agent-1"):
            assert row[f"{agent}/gap_max"] < 1e-4
            assert row[f"{agent}/clipped"] == 0


def test_episodes_show_drafts_with_reviews_judge_and_one_winner_a_question(finished):
    rows = list(read_rows(finished / "episodes.jsonl"))
    assert {(row["agent"], row["adapter_version"]) for row in rows} == {
        (name, step) for name in ("agent-0", "agent-1") for step in (0, 2)
    }
    winners = {}
    for row in rows:
        assert len(row["samples"]) == 2
        for sample in row["samples"]:
            assert len(sample["reviews"]) == 1
            winners[row["step"], row["task"]] = winners.get((row["step"], row["task"]), 0) + sample["winner"]
            assert not (sample["winner"] and sample["fault"])
    assert set(winners.values()) <= {0, 1}


def test_a_stop_saves_and_a_resumed_run_ends_as_the_undisturbed_one(model, tmp_path, finished):
    tree = draft_recipe(model)
    assert not run(tmp_path / "run", tree, stop_after=1)
    with RunFolder.open(tmp_path / "run", write=True) as opened, StopRequest(say=print) as stop:
        assert draft_rl.train(configuration.parse(tree), run=opened, console=Console(quiet=True), stop=stop)
    assert contents(tmp_path / "run") == contents(finished)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "values"),
    [
        (0, {}),
        (1, {"training__ppo_on": "selected", "reward_model__score_all": False}),
    ],
)
def test_killed_at_any_moment_and_resumed_the_end_is_bit_identical(model, tmp_path, seed, values):
    # checkpoints, validations and the end of a small buffer fall on different steps
    often = {"logging__checkpoint_every": 2, "training__validate_every": 3, "reward_model__capacity": 4}
    tree = changed(model, training__steps=6, **often, **values)
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(tree))
    assert run(tmp_path / "undisturbed", tree)
    assert any("reward_model/loss" in row for row in metrics(tmp_path / "undisturbed"))
    train_through_kills(path, tmp_path / "run", seed=seed)
    assert contents(tmp_path / "run") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("values", "off"),
    [
        ({"drafts__drafts": 1}, "drafts"),
        ({"drafts__peers": False}, "peers"),
        ({"drafts__cod": False}, "Chain of Draft"),
        ({"reward_model__on": False}, "reward model"),
        ({"training__rl": False}, "PPO"),
        ({"training__imitation": 0}, "imitation"),
    ],
)
def test_each_ablation_runs_and_says_what_is_switched_off(model, tmp_path, values, off):
    assert run(tmp_path / "run", changed(model, training__steps=2, **values))
    assert f"switched off | {off} |" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.parametrize(
    "values",
    [
        {"training__unit": "token", "training__imitate": "team",
         "training__ppo_epochs": 2, "training__beta": 0.1},
        {"training__ppo_on": "selected", "reward_model__score_all": False},
        {"reward__reward": "learned", "drafts__center_reviewers": True, "drafts__retries": 1},
        {"drafts__agents": 1, "drafts__peers": False, "drafts__drafts": 3},
        {"drafts__agents": 4, "drafts__history": "none", "drafts__strategies": {}},
    ],
)  # fmt: skip
def test_every_reading_of_the_paper_runs(model, tmp_path, values):
    assert run(tmp_path / "run", changed(model, training__steps=2, limits__prompt=600, **values))


@pytest.mark.slow
@pytest.mark.parametrize(("agents", "drafts"), [(1, 1), (2, 3), (3, 5), (4, 7), (5, 10)])
def test_any_number_of_agents_and_drafts_runs(model, tmp_path, agents, drafts):
    values = {"drafts__agents": agents, "drafts__drafts": drafts, "drafts__peers": agents > 1}
    assert run(tmp_path / "run", changed(model, training__steps=1, limits__prompt=900, **values))


def test_a_question_without_a_valid_draft_has_no_winner_and_teaches_nothing(model, tmp_path):
    # drafts of one token cannot hold a step and an answer
    tree = changed(model, limits__draft=1, training__steps=1, training__validate_every=1)
    assert run(tmp_path / "run", tree)
    (row,) = metrics(tmp_path / "run")
    assert row["no_winner"] == 3
    assert row["selected"] == row["tokens"] == row["reward_model/buffer"] == 0
    first, second = (
        tmp_path / "run" / "adapters" / n / "adapter_model.safetensors" for n in ("warmup", "agent-0")
    )
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({"drafts__agents": 1}, "drafts.peers: false"),
        ({"drafts__drafts": 0}, "drafts.drafts is 0: at least 1 is allowed. Raise it"),
        ({"drafts__agents": 0}, "drafts.agents is 0: at least 1 is allowed. Raise it"),
        ({"drafts__temperatures": [0.0, 0.8]}, "above 0 and at most 2"),
        ({"drafts__temperatures": [0.2, 2.5]}, "above 0 and at most 2"),
        (
            {"reward__task": 0, "reward__peer": 0, "reward__coherence": 0, "reward__diversity": 0},
            "Give one of them weight",
        ),
        ({"training__rl": False, "training__imitation": 0}, "Turn one of them on"),
        ({"reward__reward": "learned", "reward_model__on": False}, "reward.reward: observed"),
        ({"reward_model__score_all": False}, "ppo_on: selected"),
        ({"training__train_reviews": True, "training__rl": False}, "train_reviews off"),
        ({"training__train_reviews": True, "drafts__peers": False}, "train_reviews off"),
        ({"training__train_reviews": True, "drafts__review_temperature": 0}, "train_reviews off"),
        ({"data__train": {"type": "named", "name": "gsm8k"}}, "no warmup"),
    ],
)
def test_bad_recipes_are_refused_at_start_with_the_fix(model, values, fix):
    with pytest.raises(ConfigError, match=fix):
        configuration.parse(changed(model, **values))


def refusal(monkeypatch, capsys, tmp_path, tree):
    """What `seminar train` says of a recipe it refuses: one line, exit code 2, and no folder is left."""
    path, out = tmp_path / "bad.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(tree))
    monkeypatch.setattr(sys, "argv", ["seminar", "train", str(path), "--out", str(out), "--quiet"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert not out.exists()
    (line,) = (text for text in capsys.readouterr().err.splitlines() if text.startswith("seminar: "))
    return line


def test_tasks_that_nothing_can_verify_are_refused(model, tmp_path, monkeypatch, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"Why {n}?", "answer": ""}) + "\n" for n in range(20)))
    tree = changed(model, data__train={"type": "file", "path": str(rows), "domain": "qa"})
    del tree["warmup"]
    said = refusal(monkeypatch, capsys, tmp_path, tree)
    assert "20 were dropped, the first, 0, for this: there is no gold answer. At least one is needed" in said


def test_a_reward_model_of_another_tokenizer_is_refused(model, finished, tmp_path, monkeypatch, capsys):
    other = tmp_path / "other"
    shutil.copytree(finished / "reward_model", other)
    facts = json.loads((other / "reward_model.json").read_text())
    (other / "reward_model.json").write_text(json.dumps({**facts, "tokenizer": "0" * 16}))
    tree = changed(model, reward_model__start=str(other))
    assert "Use the base model of its run" in refusal(monkeypatch, capsys, tmp_path, tree)


def test_fewer_hints_than_drafts_cycle_and_this_is_said_once(model, tmp_path):
    shown = io.StringIO()
    console = Console(out=rich.console.Console(file=shown, width=200))
    tree = changed(model, drafts__strategies={"only": "Think."}, training__steps=1)
    assert run(tmp_path / "run", tree, console=console)
    assert shown.getvalue().count("1 strategy hints for 2 drafts: they cycle.") == 1


# -- what is ours ------------------------------------------------------------------------------------------


def test_reviews_learn_where_the_recipe_says_so(model, tmp_path):
    counts = {}
    for on in (False, True):
        folder = tmp_path / str(on)
        assert run(folder, changed(model, training__steps=1, training__train_reviews=on))
        (row,) = metrics(folder)
        counts[on] = row["agent-0/samples"]
    # 3 questions, each with the agent's 2 drafts, and its reviews of the other's 2
    assert counts == {False: 6, True: 12}


def test_r_phi_starts_from_a_pretrained_encoder_and_reads_with_its_tokenizer(model, tmp_path, byte_tokenizer):
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = tmp_path / "bert"
    byte_tokenizer.save_pretrained(bert)
    BertModel(BertConfig(vocab_size=260, max_position_embeddings=128, **size)).save_pretrained(bert)
    tree = changed(model, reward_model__pretrained=str(bert))
    assert not run(tmp_path / "run", tree, stop_after=1)
    with RunFolder.open(tmp_path / "run", write=True) as opened, StopRequest(say=print) as stop:
        assert draft_rl.train(configuration.parse(tree), run=opened, console=Console(quiet=True), stop=stop)
    assert run(tmp_path / "straight", tree)
    assert contents(tmp_path / "run") == contents(tmp_path / "straight")
    asked = team.load(tmp_path / "run")
    assert asked.model.encoder.encoder.config.model_type == "bert"
    assert asked.model.tokenize("1+2") == byte_tokenizer.encode("1+2", add_special_tokens=False)
    assert "1 layers of 16" in dict(plan(configuration.parse(tree)).rows)["reward model"]
    longer = changed(model, reward_model__pretrained=str(bert), reward_model__max_tokens=129)
    with pytest.raises(ConfigError, match="max_tokens: 128 or fewer"):
        run(tmp_path / "long", longer)


# -- the team at work --------------------------------------------------------------------------------------


def test_a_loaded_team_drafts_reviews_scores_and_selects(finished):
    asked = team.load(finished)
    answer = asked.ask("1+2", seed=3)
    assert [len(turns) for turns in answer.rounds] == [2, 2, 4]
    ranking = answer.ranking
    valid = [c.draft.valid for c in ranking.reading.candidates]
    allowed = [score for score, ok in zip(ranking.scores, valid, strict=True) if ok]
    assert ranking.judge == "R_phi"
    assert ranking.scores[ranking.winner] == max(allowed)
    assert answer.text == ranking.reading.candidates[ranking.winner].draft.answer
    assert sum(answer.votes.values()) <= 4
    assert asked.ask("1+2", seed=3) == answer


def test_the_python_door_trains_as_the_command_does(model, tmp_path, finished):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(draft_recipe(model)))
    folder = team.train(path, out=tmp_path / "run")
    assert contents(folder) == contents(finished)


def test_ask_shows_drafts_reviews_scores_and_the_winner(finished):
    said = CliRunner().invoke(app, ["ask", "1+2", "--team", str(finished), "--seed", "3"])
    assert said.exit_code == 0, said.output
    heads = [line for line in said.stdout.splitlines() if line.startswith("── ")]
    assert heads[:4] == ["── draft 1", "── draft 2", "── reviews", "── scores of R_phi"]
    assert heads[4].startswith("── vote of all drafts says: ")
    assert re.fullmatch(r"── winner: agent-[01] draft [12] says .+", heads[5])
    assert said.stdout.count(" tokens):\n") == 4 + 4  # drafts and reviews
    assert "agent-1 (of agent-0 draft 2, " in said.stdout
    assert len(re.findall(r"^agent-[01] draft [12]: 0\.\d{3}, ", said.stdout, re.MULTILINE)) == 4


def test_a_question_with_options_is_one_of_choice(finished):
    asked = team.load(finished)
    assert asked.task("1+2").domain == "maths"
    task = asked.task("1+2?", choices=["3", "4"])
    assert (task.domain, task.choices) == ("choice", ("3", "4"))
    said = CliRunner().invoke(app, ["ask", "1+2?", "--choice", "3", "--choice", "4", "--team", str(finished)])
    assert said.exit_code == 0, said.output


def test_eval_reports_winner_vote_agent_draft_and_oracle_with_intervals(finished, tmp_path):
    said = CliRunner().invoke(app, ["eval", "--team", str(finished), "--out", str(tmp_path / "again")])
    assert said.exit_code == 0, said.output
    report = (tmp_path / "again" / "report.md").read_text()
    for label in ("selected answer", "majority vote", "best single agent", "mean draft", "oracle of 4"):
        assert re.search(rf"^\| {label}.*, trained \|.*\[.*\]", report, re.MULTILINE), label


def test_eval_on_another_domain_reports_what_that_domain_measures(finished, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{n}+1?", "answer": "Rome"}) + "\n" for n in range(3)))
    source = f"data.evaluation=[{{type: file, path: {rows}, domain: qa}}]"
    said = CliRunner().invoke(app, ["eval", source, "--team", str(finished), "--out", str(tmp_path / "qa")])
    assert said.exit_code == 0, said.output
    report = (tmp_path / "qa" / "report.md").read_text()
    assert re.search(r"^\| F1, trained \|", report, re.MULTILINE)
    assert re.search(r"^\| exact match, before \|", report, re.MULTILINE)
    assert "complexity" not in report
    assert re.search(r"^\| generated tokens of reviews a question, trained \|", report, re.MULTILINE)
