"""All stages of DRAFT-RL on a model of a few thousand parameters: counts, stop and resume, ablations."""

import json
from copy import deepcopy

import pytest
from small_run import draft_recipe, teach_forms, write_model
from test_mada import contents

from seminar import build, rollout
from seminar import config as configuration
from seminar.console import Console
from seminar.errors import ConfigError, ModelError
from seminar.jsonl import read_rows
from seminar.methods import draft_rl
from seminar.rewards.reading import read, shown
from seminar.runlog import RunFolder
from seminar.stopping import StopRequest
from seminar.tasks.taskset import TaskSet
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


def run(folder, tree, *, stop_after=None):
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
        return draft_rl.train(config, run=made, console=Console(quiet=True), stop=stop)


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
    team = build.draft_team(world, config, dict.fromkeys(protocol.agents))
    task = Task(id="t", question="12+30", gold="98765", meta={"solution": "98765"})
    (episode,) = rollout.play([task], protocol, team, seed=(0,))
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
        ({"drafts__drafts": 0}, "greater than or equal to 1"),
        ({"drafts__temperatures": [0.0, 0.8]}, "above 0 and at most 2"),
        ({"drafts__temperatures": [0.2, 2.5]}, "above 0 and at most 2"),
        (
            {"reward__task": 0, "reward__peer": 0, "reward__coherence": 0, "reward__diversity": 0},
            "Give one of them weight",
        ),
        ({"training__rl": False, "training__imitation": 0}, "Turn one of them on"),
        ({"reward__reward": "learned", "reward_model__on": False}, "reward.reward: observed"),
        ({"reward_model__score_all": False}, "ppo_on: selected"),
        ({"data__train": {"type": "named", "name": "gsm8k"}}, "no warmup"),
    ],
)
def test_bad_recipes_are_refused_at_start_with_the_fix(model, values, fix):
    with pytest.raises(ConfigError, match=fix):
        configuration.parse(changed(model, **values))


def test_a_task_that_nothing_can_verify_is_refused(model):
    config = configuration.parse(draft_recipe(model))
    with pytest.raises(ConfigError, match=r"reward\.task: 0"):
        draft_rl.check_verifiable(config, TaskSet(name="a", tasks=(Task(id="a", question="Why?"),)))


def test_a_reward_model_of_another_tokenizer_is_refused(model, finished, tmp_path):
    facts = json.loads((finished / "reward_model" / "reward_model.json").read_text())
    other = tmp_path / "other"
    other.mkdir()
    for path in (finished / "reward_model").iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    (other / "reward_model.json").write_text(json.dumps({**facts, "tokenizer": "0" * 16}))
    with pytest.raises(ModelError, match="another tokenizer"):
        run(tmp_path / "run", changed(model, reward_model__start=str(other)))
