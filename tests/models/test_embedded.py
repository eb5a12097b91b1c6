import hashlib
import os
import resource
import threading
import zipfile
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from seminar.errors import ModelError
from seminar.models import embedded
from seminar.models.embedded import SMOLLM2, TINY, WheelModel, cache_folder, fetch, hub_reachable, resolve

WORDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *"abc123\n", "12", "ab", "Ġ"]
TEMPLATE = "{% for m in messages %}{{ m['content'] + '<|im_end|>' }}{% endfor %}"


def write_gguf(path):
    """A Llama with one layer and width 64, feed-forward weights in Q4_1; returns one of them dequantised."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(32)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3, 3] + [1] * (len(WORDS) - 3))
    writer.add_token_merges(["1 2", "a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    plain = {
        "token_embd": (len(WORDS), 64),
        "output_norm": (64,),
        "blk.0.attn_norm": (64,),
        "blk.0.ffn_norm": (64,),
    }
    plain |= {f"blk.0.attn_{name}": (64, 64) for name in ("q", "k", "v", "output")}
    for name, shape in plain.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    for name, shape in {"gate": (96, 64), "up": (96, 64), "down": (64, 96)}.items():
        kind = gguf.GGMLQuantizationType.Q4_1
        packed = gguf.quantize(rng.normal(size=shape).astype(np.float32), kind)
        writer.add_tensor(f"blk.0.ffn_{name}.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return gguf.dequantize(packed, kind)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a folder, with a small wheel; what pip downloads comes from there."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    path = tmp_path / "small.gguf"
    down = write_gguf(path)
    with zipfile.ZipFile(folder / "small_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(path, "small_model/small.gguf")
        wheel.writestr(
            "small_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n"
        )
        wheel.writestr(
            "small_model-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
    spec = WheelModel(
        name="small",
        hub_id="nobody/small",
        requirement="small-model==1.0",
        member="small_model/small.gguf",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        needs_bytes=1,
    )
    return spec, folder, down


def left_in(cache):
    return sorted(path.name for path in cache.iterdir() if path.name != "lock")


def test_the_wheels_weights_arrive_dequantised_and_exact(index, tmp_path):
    spec, _, down = index
    folder = fetch(spec, cache=tmp_path / "cache")
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    np.testing.assert_array_equal(model.model.layers[0].mlp.down_proj.weight.detach().numpy(), down)


def test_the_kept_tokenizer_has_the_chat_template_the_ending_and_single_digits(index, tmp_path):
    spec, _, _ = index
    tokenizer = AutoTokenizer.from_pretrained(fetch(spec, cache=tmp_path / "cache"))
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.model_max_length == 64
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "ab12"}], return_dict=False)
    assert tokenizer.convert_ids_to_tokens(ids) == ["ab", "1", "2", "<|im_end|>"]


def test_a_second_fetch_takes_what_is_there(index, tmp_path):
    spec, folder, _ = index
    first = fetch(spec, cache=tmp_path / "cache")
    next(folder.iterdir()).unlink()
    assert fetch(spec, cache=tmp_path / "cache") == first


def test_the_cache_holds_one_whole_folder_and_nothing_else(index, tmp_path):
    spec, _, _ = index
    folder = fetch(spec, cache=tmp_path / "cache")
    assert left_in(tmp_path / "cache") == [folder.name]
    assert left_in(folder) == [
        *("chat_template.jinja", "config.json", "generation_config.json"),
        *("model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    ]


def test_what_a_killed_process_left_is_removed(index, tmp_path):
    spec, _, _ = index
    leftover = tmp_path / "cache" / ".tmp-small-abc"
    leftover.mkdir(parents=True)
    (leftover / "half.gguf").write_bytes(b"half")
    fetch(spec, cache=tmp_path / "cache")
    assert not leftover.exists()


def test_a_wrong_hash_is_refused_with_both_hashes_and_nothing_is_left(index, tmp_path):
    spec, _, _ = index
    wrong = replace(spec, sha256="0" * 64)
    with pytest.raises(ModelError, match=rf"SHA-256 {spec.sha256}, not {'0' * 64}"):
        fetch(wrong, cache=tmp_path / "cache")
    assert left_in(tmp_path / "cache") == []


def test_a_cut_wheel_is_refused_and_nothing_is_left(index, tmp_path):
    spec, folder, _ = index
    wheel = next(folder.iterdir())
    wheel.write_bytes(wheel.read_bytes()[:-200])
    with pytest.raises(ModelError, match=r"small-model==1\.0"):
        fetch(spec, cache=tmp_path / "cache")
    assert left_in(tmp_path / "cache") == []


def test_a_wheel_with_a_damaged_member_is_refused_and_nothing_is_left(index, tmp_path):
    spec, folder, _ = index
    wheel = next(folder.iterdir())
    data = bytearray(wheel.read_bytes())
    data[2000:2100] = bytes(100)
    wheel.write_bytes(data)
    with pytest.raises(ModelError, match=r"small_model-1\.0-py3-none-any\.whl is damaged"):
        fetch(spec, cache=tmp_path / "cache")
    assert left_in(tmp_path / "cache") == []


def test_an_index_without_the_wheel_is_named_with_pips_own_reason(index, tmp_path):
    spec, folder, _ = index
    next(folder.iterdir()).unlink()
    with pytest.raises(ModelError, match=r"pip could not download small-model==1\.0 \(ERROR: No matching"):
        fetch(spec, cache=tmp_path / "cache")


def test_a_disk_that_is_too_small_is_refused_before_the_download(index, tmp_path):
    spec, folder, _ = index
    next(folder.iterdir()).unlink()
    with pytest.raises(ModelError, match=r"GB free.*1000\.0 GB is needed.*SEMINAR_CACHE"):
        fetch(replace(spec, needs_bytes=10**12), cache=tmp_path / "cache")


def test_a_disk_that_fills_while_the_weights_are_written_leaves_nothing(index, tmp_path):
    spec, _, _ = index
    # 60 kB hold the GGUF file but not the 160 kB of float32 weights; writing beyond fails as on a full disk.
    size = (tmp_path / "small.gguf").stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2000, limits[1]))
    try:
        with pytest.raises(ModelError, match="cannot take the weights"):
            fetch(spec, cache=tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert left_in(tmp_path / "cache") == []


def test_a_cache_that_is_a_file_is_refused(index, tmp_path):
    spec, _, _ = index
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelError, match="cannot take the weights"):
        fetch(spec, cache=tmp_path / "cache")


def test_without_the_gguf_package_the_command_that_brings_it_is_named(index, tmp_path, monkeypatch):
    spec, _, _ = index
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'seminar\[embedded\]'"):
        fetch(spec, cache=tmp_path / "cache")


def test_two_at_a_time_make_it_once_and_get_the_same_folder(index, tmp_path):
    spec, _, _ = index
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(fetch(spec, cache=tmp_path / "cache"))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 2
    assert got[0] == got[1]
    assert left_in(tmp_path / "cache") == [got[0].name]


def test_the_cache_is_where_the_variables_say(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("SEMINAR_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(cache_folder()) == "/home/ann/.cache/seminar"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
    assert str(cache_folder()) == "/var/xdg/seminar"
    monkeypatch.setenv("SEMINAR_CACHE", "~/mine")
    assert str(cache_folder()) == "/home/ann/mine"


def test_other_names_are_passed_on_unchanged(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert resolve("Qwen/Qwen2.5-0.5B-Instruct") == "Qwen/Qwen2.5-0.5B-Instruct"
    assert resolve("./tiny") == "./tiny"


def test_tiny_is_the_folder_in_the_package():
    assert resolve("tiny") == str(TINY)
    assert (TINY / "config.json").is_file()


def test_smollm2_from_the_cache_needs_no_hub_and_no_index(monkeypatch, tmp_path):
    monkeypatch.setenv("SEMINAR_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path / f"smollm2-{SMOLLM2.sha256[:12]}-v1"
    folder.mkdir()
    assert resolve("smollm2") == str(folder)


def test_an_offline_hub_is_not_asked(monkeypatch):
    monkeypatch.setattr(embedded.constants, "HF_HUB_OFFLINE", True)
    asked = []
    monkeypatch.setattr(embedded.urllib.request, "urlopen", lambda *a, **k: asked.append(a))
    assert not hub_reachable()
    assert asked == []


def test_a_hub_that_never_answers_does_not_hold_us_up(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(embedded.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(embedded.urllib.request, "urlopen", lambda *a, **k: never.wait())
    assert not hub_reachable(timeout_s=0.05)


@pytest.mark.slow
def test_smollm2_says_that_paris_is_the_capital_of_france():
    folder = resolve("smollm2")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
    answer = model.generate(**ids, max_new_tokens=20, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
