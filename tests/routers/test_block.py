"""The block router: what it reads of a model, padding, longer documents, what it refuses, and that it learns."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, GPT2Config, LlamaConfig, MistralConfig, PretrainedConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

from keepset.blocks import Span
from keepset.readouts import all_position_attention
from keepset.routers.block import BlockRouter, ReadModel, load_block_router, score_document
from keepset.routers.block_training import padded, train_block_routers
from keepset.routers.examples import RouterExample, read_examples
from keepset.routers.features import block_features, decoder_layers, early_layers
from keepset.routers.targets import as_distribution
from keepset.routers.trained_blocks import blocks_to_read

VOCABULARY = 60
WIDTH = 4
PREFIX = 3
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "mistral": MistralConfig(**SIZES, sliding_window=5),
    "gemma2": Gemma2Config(**SIZES, sliding_window=5),
    "gpt2": GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=4, n_head=4),
}


def build(config: PretrainedConfig, seed: int = 0) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    return model


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return build(CONFIGS["llama"])


def documents(n: int, n_blocks: int, seed: int = 0) -> tuple[Tensor, list[Span]]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(10, VOCABULARY, (n, PREFIX + n_blocks * WIDTH), generator=generator)
    return tokens, [Span(PREFIX + i * WIDTH, PREFIX + (i + 1) * WIDTH) for i in range(n_blocks)]


def make_router(model: PreTrainedModel, regime: str = "pre_query") -> BlockRouter:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BlockRouter(ReadModel.of(model), regime, layers=1, target="causal", blocks=WIDTH).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CONFIGS)
def test_features_are_means_of_the_models_own_states(name: str) -> None:
    model = build(CONFIGS[name])
    tokens, blocks = documents(2, 5)
    states = model(tokens, output_hidden_states=True).hidden_states
    features = block_features(model, tokens, blocks, layers=2)
    assert features.shape == (2, 5, 64)
    for i, span in enumerate(blocks):
        embedded = model.get_input_embeddings()(tokens[:, span.start : span.stop]).mean(1)
        torch.testing.assert_close(features[:, i, :32], embedded)
        torch.testing.assert_close(features[:, i, 32:], states[2][:, span.start : span.stop].mean(1))


def test_only_the_first_layers_run_and_nothing_stays_behind(model: PreTrainedModel) -> None:
    tokens, blocks = documents(1, 5)
    before = model(tokens).logits
    ran: list[int] = []
    handles = [
        layer.register_forward_pre_hook(lambda *_, i=i: ran.append(i)) for i, layer in enumerate(decoder_layers(model))
    ]
    block_features(model, tokens, blocks, layers=2)
    assert ran == [0, 1]
    ran.clear()
    block_features(model, tokens, blocks)
    assert ran == list(range(early_layers(model))) == [0]
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(model(tokens).logits, before, rtol=0, atol=0)


def test_a_question_comes_first_and_changes_no_block(model: PreTrainedModel) -> None:
    tokens, blocks = documents(2, 5)
    question = torch.tensor([[11, 12, 13], [21, 22, 23]])
    features = block_features(model, tokens, blocks, question, layers=2)
    assert features.shape == (2, 6, 64)
    torch.testing.assert_close(features[:, 1:], block_features(model, tokens, blocks, layers=2))
    torch.testing.assert_close(features[:, 0, :32], model.get_input_embeddings()(question).mean(1))


@pytest.mark.parametrize("regime", ["pre_query", "query_aware"])
def test_padding_changes_nothing(model: PreTrainedModel, regime: str) -> None:
    router = make_router(model, regime)
    features = []
    for n_blocks in (7, 3):
        tokens, blocks = documents(1, n_blocks)
        question = tokens[:, :3] if regime == "query_aware" else None
        features.append(block_features(model, tokens, blocks, question, layers=1)[0])
    router.standardise(features)
    together = router(padded(features))
    torch.testing.assert_close(together[0], router(features[0][None])[0])
    torch.testing.assert_close(together[1, :3], router(features[1][None])[0])
    assert bool((together[1, 3:] == -1e4).all())


@torch.no_grad()
def test_place_and_question_matter(model: PreTrainedModel) -> None:
    router = make_router(model, "query_aware")
    row = torch.randn(64, generator=torch.Generator().manual_seed(0))
    twins = router(torch.stack([-row, row, row])[None])[0]
    assert float((twins[0] - twins[1]).abs()) > 1e-3, "equal blocks at other places"
    other = router(torch.stack([2 * row, row, row])[None])[0]
    assert float((twins - other).abs().min()) > 1e-3, "another question"


@pytest.fixture
def saved(model: PreTrainedModel, tmp_path: Path) -> Path:
    router = make_router(model)
    tokens, blocks = documents(4, 8)
    router.standardise([block_features(model, tokens, blocks, layers=1)])
    for _ in range(2):  # the second time over the first
        router.save_pretrained(tmp_path / "router")
    return tmp_path / "router"


def test_round_trip_and_batched_scores(model: PreTrainedModel, saved: Path) -> None:
    router = load_block_router(saved)
    assert (router.regime, router.target, router.layers, router.training) == ("pre_query", "causal", 1, False)
    assert router.blocks == WIDTH
    assert float(router.scale.max()) != 1.0, "the standardisation is saved"
    tokens, blocks = documents(3, 128)
    scores = torch.stack([score_document(router, model, document, blocks) for document in tokens])
    assert scores.shape == (3, 128)
    torch.testing.assert_close(scores, router(block_features(model, tokens, blocks, layers=1)))
    again = BlockRouter.from_pretrained(saved)
    torch.testing.assert_close(score_document(again, model, tokens[0], blocks), scores[0], rtol=0, atol=0)
    assert sorted(path.name for path in saved.parent.iterdir()) == ["router"]


def test_a_router_for_another_model(model: PreTrainedModel, saved: Path) -> None:
    router = load_block_router(saved)
    tokens, blocks = documents(1, 8)
    sizes = SIZES | {"vocab_size": 61}
    for other in (build(LlamaConfig(**sizes)), build(CONFIGS["llama"], seed=1)):
        with pytest.raises(
            ValueError, match=r"expected the one this router was trained for, .*width 32, 60 tokens.*got"
        ):
            score_document(router, other, tokens[0], blocks)


def test_a_router_for_another_regime(model: PreTrainedModel) -> None:
    tokens, blocks = documents(1, 8)
    with pytest.raises(ValueError, match=r"question: expected none .*regime pre_query\), got one; use a router of the"):
        score_document(make_router(model), model, tokens[0], blocks, tokens[0, :3])
    with pytest.raises(ValueError, match=r"question: expected one .*regime query_aware\), got none"):
        score_document(make_router(model, "query_aware"), model, tokens[0], blocks)


def test_a_saved_router_says_what_it_is(saved: Path) -> None:
    card = (saved / "README.md").read_text(encoding="utf-8")
    for line in ("library_name: keepset", "| regime | pre_query |", "| layers | 1 |", f"| blocks | {WIDTH} |"):
        assert line in card.splitlines()
    assert "More Information Needed" not in card


def test_saving_does_not_replace_what_is_no_router(model: PreTrainedModel, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"only a router, got thesis\.tex; .*choose another one"):
        make_router(model).save_pretrained(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_failed_save_leaves_the_old_router(
    model: PreTrainedModel, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("keepset.routers.network.write_json", full_disk)
    with pytest.raises(OSError, match="no space left"):
        make_router(model).save_pretrained(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["router"]
    load_block_router(saved)


def test_folders_that_are_no_block_router(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a saved router .*, got no config\.json"):
        load_block_router(tmp_path / "nothing")
    (tmp_path / "config.json").write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match="expected the config of a saved router, got something else"):
        load_block_router(tmp_path)
    weights = saved / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ValueError, match=r"is damaged: expected model\.safetensors .*train the router again"):
        load_block_router(saved)
    weights.unlink()
    with pytest.raises(ValueError, match="got no file; train the router again"):
        load_block_router(saved)
    config = saved / "config.json"
    config.write_text(config.read_text().replace('"block"', '"chain"'))
    with pytest.raises(ValueError, match="expected the config of a saved router, got something else"):
        load_block_router(saved)


def test_a_router_that_does_not_say_its_blocks(saved: Path) -> None:
    config = saved / "config.json"
    found = json.loads(config.read_text())
    del found["blocks"]
    config.write_text(json.dumps(found))
    for load in (load_block_router, BlockRouter.from_pretrained):
        with pytest.raises(ValueError, match=r"config\.json: .*blocks: Field required.*train it again") as error:
            load(saved)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "found"), [("line", "line"), (64, 64), ("64", 64), ("64 tokens", 64), ("own", "own"), ("1 token", 1)]
)
def test_blocks_are_written_in_one_way(model: PreTrainedModel, given: str | int, found: str | int) -> None:
    assert BlockRouter(ReadModel.of(model), "pre_query", 1, "causal", given).blocks == found


def test_a_router_reads_the_blocks_it_was_trained_on() -> None:
    for trained, same in (("line", "line"), (64, "64 tokens"), (64, None)):
        assert blocks_to_read(trained, same) == trained  # type: ignore[arg-type]
    assert blocks_to_read("own", [(0, 3)]) == [(0, 3)]
    for trained, other, said in (
        ("sentence", 128, "expected sentence blocks, .*, got blocks of 128 tokens; leave blocks out"),
        (64, "line", "expected blocks of 64 tokens, which this router was trained on, got line blocks"),
        ("line", [(0, 3)], "got character spans"),
        ("own", None, "labels brought their own blocks, got none; pass"),
        ("line", "chapter", "expected sentence, paragraph, line, own or a number of tokens, got 'chapter'"),
    ):
        with pytest.raises(ValueError, match=said):
            blocks_to_read(trained, other)  # type: ignore[arg-type]


def test_examples_become_features_and_targets(model: PreTrainedModel) -> None:
    tokens, blocks = documents(1, 5)
    question = torch.tensor([11, 12, 13])
    evidence = torch.tensor([[True, False, False, False, True]])
    measured = torch.tensor([4.0, 0.0, 0.0, 0.0, 12.0])
    before = RouterExample(tokens[0], tuple(blocks), evidence)
    after = RouterExample(tokens[0], tuple(blocks), evidence, question)
    known = RouterExample(tokens[0], tuple(blocks), evidence, question, measured)
    read = 0

    def count() -> None:
        nonlocal read
        read += 1

    features, targets = read_examples(model, [before, after, known], ("causal", "imitation"), 1, count)
    assert read == 3
    torch.testing.assert_close(features[0], block_features(model, tokens, blocks, layers=1)[0])
    torch.testing.assert_close(features[1], block_features(model, tokens, blocks, question[None], layers=1)[0])
    assert all(torch.equal(target, evidence) for target in targets["causal"])
    whole = torch.cat([tokens[0], question])[None]
    for target, seen in zip(targets["imitation"], (tokens, whole), strict=False):
        expected = all_position_attention(model, seen, blocks)[0]
        torch.testing.assert_close(target, expected / expected.sum())
    torch.testing.assert_close(targets["imitation"][2], torch.tensor([0.25, 0, 0, 0, 0.75]))
    assert list(read_examples(model, [before], ["causal"])[1]) == ["causal"]


def test_other_errors(model: PreTrainedModel) -> None:
    tokens, blocks = documents(1, 5)
    for layers in (0, 5):
        with pytest.raises(ValueError, match=f"layers: expected 1 to 4 .*, got {layers}"):
            block_features(model, tokens, blocks, layers=layers)
    with pytest.raises(ValueError, match="expected to end within the 19 tokens"):
        block_features(model, tokens[:, :19], blocks)
    with pytest.raises(ValueError, match="regime: expected one of pre_query, query_aware, got 'blind'"):
        make_router(model, "blind")
    with pytest.raises(ValueError, match="target: expected one of causal, imitation, twin, got 'labels'"):
        BlockRouter(ReadModel.of(model), "pre_query", 1, "labels", WIDTH)  # type: ignore[arg-type]


def test_both_targets_are_learned_and_hold_on_longer_documents(model: PreTrainedModel) -> None:
    """Evidence: blocks with token 1 in them, two per document. Attention: blocks with token 2, two others.

    Trained on 6 to 8 blocks, read at 32, where two random blocks would find 1/16 of them.
    """

    def draw(n_blocks: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        tokens, blocks = documents(1, n_blocks, seed)
        order = torch.randperm(n_blocks, generator=torch.Generator().manual_seed(seed))
        for marker, chosen in ((1, order[:2]), (2, order[2:4])):
            tokens[0, PREFIX + chosen * WIDTH + 1] = marker
        marks = torch.zeros(2, n_blocks).index_put((torch.tensor([0, 0, 1, 1]), order[:4]), torch.ones(()))
        return block_features(model, tokens, blocks, layers=1)[0], marks[0].bool(), marks[1]

    features, evidence, attention = zip(*(draw(6 + seed % 3, seed) for seed in range(60)), strict=True)
    targets = {
        "causal": [found.unsqueeze(0) for found in evidence],
        "imitation": [as_distribution(found + 0.1) for found in attention],
    }
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    trained = train_block_routers(
        ReadModel.of(model), "pre_query", 1, WIDTH, features, targets, seeds=(0, 1), steps=150, each_step=count
    )
    assert steps == 150
    held_out = [draw(32, seed) for seed in range(1000, 1020)]
    for target, routers in trained.items():
        for router in routers:
            assert router.target == target
            found = [
                float(
                    (evidence if target == "causal" else attention)[router(x[None])[0].topk(2).indices].float().mean()
                )
                for x, evidence, attention in held_out
            ]
            assert sum(found) / len(found) > 0.8, target
