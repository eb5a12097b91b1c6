"""The bench on a tiny random model: it runs, its JSON holds what it shows, its floor is what it states."""

import json
from importlib.util import find_spec

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from seminar.bench import pairs
from seminar.bench.floor import Rates, Sizes, floor, sizes
from seminar.bench.pairs import OURS, Child, Side, check_trl, compare, result
from seminar.bench.pipe import memory
from seminar.bench.scenarios import SCENARIOS, WORDS, Job, Scenario, make_prompts, reward
from seminar.cli.main import app
from seminar.errors import ConfigError, RunError

SIZE = Sizes(linear=1000, adapter=100, head=500, attention=20, kv=12)
STEP = Scenario(name="s", kind="step", prompts=2, group=3, prompt_tokens=4, new_tokens=3, beta=0.04)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random Llama of two layers with one token a word."""
    folder = tmp_path_factory.mktemp("model")
    words = ["<unk>", "<eos>", *dict.fromkeys(WORDS.split())]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            eos_token_id=1,
            tie_word_embeddings=True,
        )
    ).save_pretrained(folder)
    return str(folder)


def test_a_token_of_the_update_passes_the_layers_once_forward_and_once_back():
    # inputs: 2 prompts x (4 + 3 completions x 2) = 20; completion tokens: 2 x 3 x 3 = 18.
    # pairs a prompt: 4 x 5 / 2 = 10 in it, a completion's two inputs see 2 x 4 of it and 2 x 3 / 2 = 3 own,
    # so 10 + 3 (8 + 3) = 43, 86 in all.
    # forward: 2 (1000 + 100) 20 + 4 x 20 x 86 + 2 x 500 x 18 = 44000 + 6880 + 18000 = 68880
    # backward: 2 (1000 + 200) 20 + 8 x 20 x 86 + 18000 = 48000 + 13760 + 18000 = 79760
    # reference: 40000 + 6880 + 18000 = 64880
    parts = floor(STEP, SIZE, Rates(flops_s=1.0, bytes_s=1e12), bytes_each=2)
    assert (parts["forward"], parts["backward"], parts["reference"]) == (68880, 79760, 64880)


def test_the_prefill_reads_each_prompt_once():
    # 2 x 1000 x 8 + 4 x 20 x (2 x 10) + 2 x 500 x 2 = 16000 + 1600 + 2000
    assert floor(STEP, SIZE, Rates(1.0, 1e12), bytes_each=2)["prefill"] == 19600


def test_decoding_at_a_slow_matrix_rate_takes_its_products():
    # 3 tokens: the first comes from the prefill, so two steps of 6 rows that see 4 + 1 and 4 + 2 tokens:
    # 2 (1000 + 500) 6 = 18000 each, 4 x 20 x 6 x 5 = 2400 and 4 x 20 x 6 x 6 = 2880
    assert floor(STEP, SIZE, Rates(1.0, 1e12), bytes_each=2)["decode"] == 18000 + 2400 + 18000 + 2880


def test_decoding_at_a_slow_copy_rate_takes_the_reading_of_weights_and_keys():
    # bytes: 2 (1500 + 12 (8 + 6)) = 3336, 2 (1500 + 12 (8 + 12)) = 3480: prompts once, own tokens of 6 rows
    assert floor(STEP, SIZE, Rates(1e12, 1.0), bytes_each=2)["decode"] == 3336 + 3480


def test_without_a_penalty_there_is_no_reference_pass():
    plain = Scenario(name="s", kind="step", prompts=2, group=3, prompt_tokens=4, new_tokens=3)
    assert list(floor(plain, SIZE, Rates(1.0, 1.0), bytes_each=2)) == [
        "prefill",
        "decode",
        "forward",
        "backward",
    ]


def test_scoring_is_a_forward_pass_alone():
    s = Scenario(name="s", kind="score", prompts=2, prompt_tokens=1, new_tokens=3)
    # 2 rows of 3 inputs, 1 + 2 + 3 = 6 pairs each: 2 x 1100 x 6 + 4 x 20 x 12 + 2 x 500 x 6
    assert floor(s, SIZE, Rates(1.0, 1.0), bytes_each=2) == {"forward": 13200 + 960 + 6000}


def test_sizes_are_those_of_the_model(model):
    # a layer: q 32x32, k and v 16x32, o 32x32, gate up down 48x32 -> 1024 + 2 x 512 + 1024 + 3 x 1536 = 7680
    # rank 16: 16 (64 + 48 + 48 + 64 + 3 x 80) = 7424; attention 2 x 4 x 8; keys and values 2 x 2 x 2 x 8
    words = len(set(WORDS.split())) + 2
    assert sizes(model, rank=16) == Sizes(linear=15360, adapter=14848, head=32 * words, attention=64, kv=64)


def test_the_workloads_are_those_of_the_table():
    told = {
        s.name: (s.prompts, s.agents, s.group, s.prompt_tokens, s.new_tokens, s.beta)
        for s in SCENARIOS.values()
    }
    assert told == {
        "generator": (4, 1, 4, 73, 64, 0.04),
        "critic": (2, 1, 8, 770, 64, 0.04),
        "drafts": (4, 3, 5, 73, 64, 0.04),
        "decode": (64, 1, 1, 48, 64, 0.0),
        "logprobs": (16, 1, 1, 1, 512, 0.0),
    }


def test_prompts_have_exactly_the_wanted_tokens_and_differ():
    made = make_prompts(lambda text: [len(word) for word in text.split()], count=5, tokens=30)
    assert [len(prompt.ids) for prompt in made] == [30] * 5
    assert len({prompt.text for prompt in made}) == 5


def test_a_tokenizer_that_cannot_make_the_length_is_an_error():
    with pytest.raises(ConfigError, match="exactly 3 tokens"):
        make_prompts(lambda text: [1, 1] * len(text.split()), count=1, tokens=3)


def test_a_job_survives_its_way_to_another_process():
    job = Job(
        scenario=STEP,
        model="m",
        dtype="float32",
        device="cpu",
        prompts=make_prompts(lambda text: [len(word) for word in text.split()], count=2, tokens=4),
        adapter="a",
    )
    assert Job.of(json.loads(json.dumps(job.row()))) == job


def test_the_reward_tells_texts_apart():
    assert (reward("aab"), reward("abc"), reward("")) == (2.0, 3.0, 0.0)


def test_ratios_go_pair_by_pair_and_figures_are_medians():
    def run(seconds):
        return {
            "seconds": seconds,
            "phases": {"sample": {"seconds": seconds / 2, "tokens": 18}},
            "peak_bytes": int(seconds * 100),
        }

    runs = {OURS: [run(s) for s in (1.0, 4.0, 2.0)], "trl": [run(s) for s in (3.0, 8.0, 8.0)]}
    rates = [Rates(1.0, 5.0), Rates(3.0, 7.0), Rates(2.0, 6.0)]
    found = result(STEP, runs, rates=rates, size=SIZE, dtype="float32")
    assert found["ratios"] == {"trl": [3.0, 2.0, 4.0]}
    assert found["sides"][OURS] == {
        "seconds": [1.0, 4.0, 2.0],
        "median_s": 2.0,
        "tokens_s": 9.0,
        "phases": {"sample": {"seconds": 1.0, "tokens": 18, "tokens_s": 18.0}},
        "peak_bytes": 400,
    }
    assert found["rates"] == {"flops_s": 2.0, "bytes_s": 6.0}
    assert found["times_the_floor"] == 2.0 / found["floor"]["seconds"]


def test_peak_memory_grows_with_what_is_touched():
    before = memory(torch.device("cpu"))["peak_bytes"]
    torch.ones(before // 4)  # floats of 4 bytes: as much again as the process ever had
    assert memory(torch.device("cpu"))["peak_bytes"] >= 1.5 * before


def test_a_side_that_dies_says_why(tmp_path):
    dying = Side(name="trl", command=("python3", "-c", "import sys; sys.exit('no memory left')"))
    job = Job(scenario=STEP, model="m", dtype="float32", device="cpu", prompts=[], adapter="a")
    with pytest.raises(RunError, match=r"side trl ended with code 1.*no memory left"):
        Child(dying, job, log=tmp_path / "log")


def test_trl_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(pairs, "TRL", "0.0.1")
    with pytest.raises(ConfigError, match=r"seminar\[bench\]"):
        check_trl()


def test_trl_takes_part_where_it_has_a_counterpart():
    names = {
        s.name: [side.name for side in pairs.sides(s, trl=True, vllm_python="/v/python")]
        for s in SCENARIOS.values()
    }
    assert names == {
        "generator": [OURS, "trl"],
        "critic": [OURS, "trl"],
        "drafts": [OURS],
        "decode": [OURS, "transformers", "vllm"],
        "logprobs": [OURS, "trl"],
    }


@pytest.mark.slow
def test_the_command_shows_and_writes_what_it_measured(model, tmp_path):
    target = tmp_path / "bench.json"
    arguments = ["bench", "--model", model, "--dtype", "float32", "--pairs", "1", "--json", str(target)]
    shown = CliRunner().invoke(app, [*arguments, "--scenario", "decode"])
    assert shown.exit_code == 0, shown.output
    written = json.loads(target.read_text())
    assert (written["pairs"], written["dtype"], list(written["scenarios"])) == (1, "float32", ["decode"])
    decode = written["scenarios"]["decode"]
    tokens = {
        name: {phase: part["tokens"] for phase, part in side["phases"].items()}
        for name, side in decode["sides"].items()
    }
    assert tokens == {OURS: {"prefill": 3072, "decode": 4096}, "transformers": {"sample": 4096}}
    assert len(decode["ratios"]["transformers"]) == 1
    assert all(side["peak_bytes"] > 1e8 for side in decode["sides"].values())
    assert "transformers / seminar: median" in shown.output
    assert "floor:" in shown.output


@pytest.mark.slow
@pytest.mark.skipif(find_spec("trl") is None, reason="needs the extra `bench`")
def test_trl_and_ours_run_the_same_step(model):
    step = Scenario(
        name="s", kind="step", prompts=2, group=2, prompt_tokens=5, new_tokens=4, beta=0.04, peer_rows=2
    )
    found = compare(
        step,
        model=model,
        dtype="float32",
        device="cpu",
        pairs=1,
        sides=pairs.sides(step, trl=True, vllm_python=None),
        progress=lambda line: None,
    )
    tokens = {
        name: {phase: part["tokens"] for phase, part in side["phases"].items() if phase != "reference"}
        for name, side in found["sides"].items()
    }
    # 4 completions of 4 tokens; TRL forwards 4 rows of 5 + 4, ours 2 rows of 5 + 2 x 4
    assert tokens == {
        OURS: {"prefill": 10, "decode": 16, "grading": 16, "forward": 26, "backward": 26},
        "trl": {"sample": 16, "update": 36},
    }
