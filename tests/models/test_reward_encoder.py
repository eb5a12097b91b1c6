import pytest
import torch
from transformers import BertConfig, BertModel

from seminar.errors import ConfigError, ModelError
from seminar.models.reward_encoder import (
    Inputs,
    build_encoder,
    count_parameters,
    from_config,
    from_pretrained,
    solve_width,
)


def inputs(
    ids: list[list[int]], segments: list[list[int]], numbers: list[list[float]] | None = None
) -> Inputs:
    """One-number reviews; `numbers[b][t]`."""
    values = numbers or [[0.0] * len(row) for row in ids]
    return Inputs(torch.tensor(ids), torch.tensor(segments), torch.tensor(values)[..., None])


def small(seed: int = 0) -> torch.nn.Module:
    encoder = build_encoder(layers=2, vocab=50, width=32, numbers=1, seed=seed)
    torch.nn.init.normal_(encoder.out.weight, generator=torch.Generator().manual_seed(1))
    torch.nn.init.normal_(encoder.segments.weight, std=0.02, generator=torch.Generator().manual_seed(2))
    return encoder.eval()


@pytest.mark.parametrize(
    ("vocab", "width"),
    [(49_152, 688), (151_936, 464), (128_256, 512), (32_000, 736)],  # SmolLM2, Qwen2.5, Llama 3, Llama 2
)
def test_the_papers_setting_has_100_million_parameters_within_five_percent(vocab: int, width: int) -> None:
    assert solve_width(layers=12, vocab=vocab, budget=100_000_000, numbers=12) == width
    count = count_parameters(layers=12, vocab=vocab, width=width, numbers=12)
    assert 95_000_000 <= count <= 105_000_000


@pytest.mark.parametrize(("layers", "width"), [(1, 16), (2, 80), (3, 144), (12, 128)])
def test_the_counted_parameters_are_those_of_the_model(layers: int, width: int) -> None:
    encoder = build_encoder(layers=layers, vocab=77, width=width, numbers=12, seed=0)
    real = sum(parameter.numel() for parameter in encoder.parameters())
    assert count_parameters(layers=layers, vocab=77, width=width, numbers=12) == real


@pytest.mark.parametrize(
    ("layers", "vocab", "budget"), [(12, 256_000, 2_000_000), (12, 100, 10_000), (0, 100, 1_000_000)]
)
def test_a_budget_no_width_meets_is_refused(layers: int, vocab: int, budget: int) -> None:
    with pytest.raises(ConfigError, match=f"reward_model: {layers} layers"):
        solve_width(layers=layers, vocab=vocab, budget=budget, numbers=12)


def test_a_new_encoder_says_one_half_for_everything() -> None:
    encoder = build_encoder(layers=1, vocab=50, width=32, numbers=1, seed=0)
    assert encoder(inputs([[1, 2], [3, 4]], [[0, 1], [0, 1]])).tolist() == [0.0, 0.0]  # sigmoid(0) = 1/2


def test_weights_depend_on_the_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = (build_encoder(layers=1, vocab=50, width=32, numbers=1, seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [m.encoder.get_input_embeddings().weight for m in (a, b, c)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_padding_and_company_do_not_change_a_logit() -> None:
    encoder = small()
    alone = encoder(inputs([[3, 7, 9]], [[0, 1, 1]]))
    padded = encoder(inputs([[3, 7, 9, -1, -1], [8, 8, 8, 8, 8]], [[0, 1, 1, -1, -1], [0, 0, 1, 1, 1]]))
    torch.testing.assert_close(padded[0], alone[0], rtol=1e-5, atol=1e-6)


def test_question_draft_and_reviews_each_change_the_logit() -> None:
    encoder = small()
    base = inputs([[3, 7, -1, 9]], [[0, 1, 2, 2]], [[0.0, 0.0, 0.5, 0.0]])
    logit = encoder(base)
    for place in (0, 1, 3):
        ids = base.ids_BT.clone()
        ids[0, place] = 20
        assert (encoder(base._replace(ids_BT=ids)) - logit).abs() > 1e-4
    assert (encoder(base._replace(numbers_BTF=base.numbers_BTF * 2)) - logit).abs() > 1e-4
    segments = torch.tensor([[0, 1, 2, 1]])
    assert (encoder(base._replace(segment_BT=segments)) - logit).abs() > 1e-4


def test_a_position_of_numbers_holds_no_token() -> None:
    encoder = small()
    with torch.no_grad():
        encoder.encoder.get_input_embeddings().weight[0] += 100.0  # -1 must not read id 0
    other = small()
    given = inputs([[3, 7, -1]], [[0, 1, 2]], [[0.0, 0.0, 0.5]])
    assert torch.equal(encoder(given), other(given))


def test_a_draft_with_nothing_in_it_has_a_finite_logit() -> None:
    encoder = small()
    logits = encoder(inputs([[3, 4], [-1, -1]], [[0, 0], [-1, -1]]))
    assert logits.tolist() == pytest.approx(encoder.out.bias.tolist() * 2)


def test_any_encoder_of_transformers_can_be_the_start(tmp_path) -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    bert = BertModel(config)
    bert.save_pretrained(tmp_path)
    encoder = from_pretrained(tmp_path, numbers=1, seed=0)
    assert torch.equal(encoder.encoder.get_input_embeddings().weight, bert.get_input_embeddings().weight)
    assert encoder(inputs([[1, 2]], [[0, 1]])).shape == (1,)
    assert encoder.vocab == from_config(config, numbers=1, seed=0).vocab == 50


def test_a_folder_without_an_encoder_is_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"reward_model\.pretrained"):
        from_pretrained(tmp_path, numbers=1, seed=0)
