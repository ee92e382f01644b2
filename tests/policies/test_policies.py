"""Every policy: what it says it scores, computed again the slow way; and what all of them share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, CohereConfig, GPT2Config, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from keepset import policies
from keepset.blocks import Span
from keepset.paper.bench.models import tiny_model
from keepset.policies import (
    BM25,
    H2O,
    POLICIES,
    Context,
    ExpectedAttention,
    KVzip,
    KVzipMax,
    MomentKV,
    Oracle,
    Policy,
    QuestionLikelihood,
    Random,
    Recency,
    ReSTKV,
    SnapKV,
    Words,
    build_policy,
    find_policy,
    score_checked,
)
from keepset.policies.expected_attention import expected, rotation
from keepset.policies.kvzip import FIRST, LATER
from keepset.readouts import output_reconstruction
from keepset.readouts.layers import Layer, visit_layers
from keepset.text.bm25 import bm25
from keepset.text.lexical import buckets
from keepset.text.prompt import SEPARATOR

T, Q = 90, 7
BLOCKS = (Span(2, 22), Span(22, 42), Span(45, 60), Span(60, 88))
N = len(BLOCKS)


@pytest.fixture(scope="module")
def loaded() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    model, tokenizer = tiny_model()
    with torch.no_grad():  # untrained attention is nearly uniform
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 20
    return model, tokenizer


@pytest.fixture
def context(loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> Context:
    generator = torch.Generator().manual_seed(0)
    return Context(loaded[0], torch.randint(260, (T,), generator=generator), BLOCKS)


@pytest.fixture
def asked(context: Context) -> Context:
    question = torch.randint(260, (Q,), generator=torch.Generator().manual_seed(1))
    return Context(context.model, context.tokens, BLOCKS, question)


@torch.no_grad()
def all_attention(model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """(L, H, T, T) as transformers itself gives it."""
    model.set_attn_implementation("eager")
    try:
        return torch.cat(model(tokens, output_attentions=True).attentions).double()
    finally:
        model.set_attn_implementation("sdpa")


def per_block(per_token: Tensor) -> Tensor:
    return torch.stack([per_token[..., span.start : span.stop].sum(-1) for span in BLOCKS], dim=-1)


def test_h2o_is_the_plain_sum_over_all_rows(context: Context, asked: Context) -> None:
    for one in (context, asked):
        attention = all_attention(one.model, one.batch)
        expected = per_block(attention.sum(2)).mean(1).sum(0)
        torch.testing.assert_close(H2O().score(one).double(), expected, rtol=1e-4, atol=1e-5)


def test_snapkv_reads_the_question_rows_or_the_last_rows_of_the_context(context: Context, asked: Context) -> None:
    for one, rows in ((asked, slice(T, T + Q)), (context, slice(T - 64, T))):
        attention = all_attention(one.model, one.batch)
        expected = per_block(attention[:, :, rows].sum(2)).mean((0, 1))
        torch.testing.assert_close(SnapKV().score(one).double(), expected, rtol=1e-4, atol=1e-5)


def test_restkv_is_the_reconstruction_on_the_same_rows(context: Context, asked: Context) -> None:
    for one, rows in ((asked, Span(T, T + Q)), (context, Span(T - 64, T))):
        expected = output_reconstruction(one.model, one.batch, BLOCKS, rows)[0].mean((0, 1))
        assert torch.equal(ReSTKV().score(one), expected)


def test_momentkv_weighs_attention_by_the_angle_to_the_mean_value(context: Context, asked: Context) -> None:
    for one in (context, asked):
        values: list[Tensor] = []
        hooks = [
            layer.self_attn.v_proj.register_forward_hook(lambda *seen, values=values: values.append(seen[2]))
            for layer in one.model.model.layers
        ]
        attention = all_attention(one.model, one.batch)
        for hook in hooks:
            hook.remove()
        expected = torch.zeros(N, dtype=torch.double)
        for layer, value in enumerate(values):
            heads = value[0, :T].unflatten(-1, (2, -1)).double()  # (T, 2 shared heads, D)
            for head in range(4):
                own = heads[:, head // 2]
                mismatch = 1 - torch.cosine_similarity(own, own.mean(0, keepdim=True), dim=-1)
                expected += per_block(attention[layer, head].sum(0)[:T] * mismatch) / 8
        torch.testing.assert_close(MomentKV().score(one).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk_tokens", [2_048, 40])
def test_kvzip_is_the_largest_attention_of_each_head_while_repeating(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase], context: Context, chunk_tokens: int
) -> None:
    model, tokenizer = loaded
    repeated = context.tokens[2:88]
    turn = "<|end|>\n<|start|>assistant\n"
    best = torch.zeros(2, 2, T, dtype=torch.double)  # layers, shared heads
    for start in range(0, len(repeated), chunk_tokens):
        request = [tokenizer(SEPARATOR + (FIRST if start == 0 else f"{LATER} ")).input_ids, tokenizer(turn).input_ids]
        hint = repeated[max(0, start - 8) : start].tolist()
        row = [*request[0], *hint, *request[1], *repeated[start : start + chunk_tokens].tolist()]
        attention = all_attention(model, torch.cat([context.tokens, torch.tensor(row)])[None])
        looked = attention[:, :, T:, :T].amax(2)
        for head in range(4):
            best[:, head // 2] = torch.maximum(best[:, head // 2], looked[:, head])
    expected = torch.stack([best[..., span.start : span.stop].amax(-1) for span in BLOCKS], dim=-1)
    for policy, pooled in ((KVzip, expected.mean((0, 1))), (KVzipMax, expected.amax((0, 1)))):
        found = policy(tokenizer, chunk_tokens).score(context)
        torch.testing.assert_close(found.double(), pooled, rtol=1e-4, atol=1e-5)


def test_expected_attention_is_that_of_queries_drawn_like_those_of_the_context(context: Context) -> None:
    """Unrotated queries straight from the projection, rotated by the model's own code."""
    model, layer = context.model, context.model.model.layers[1]
    seen: dict[str, Tensor] = {}
    hooks = [
        getattr(layer.self_attn, name).register_forward_hook(lambda *a, name=name: seen.__setitem__(name, a[2]))
        for name in ("q_proj", "k_proj", "v_proj")
    ]
    with torch.no_grad():
        model(context.tokens[None])
    for hook in hooks:
        hook.remove()
    query, key, value = (states[0, 4:].unflatten(-1, (-1, 16)).transpose(0, 1) for states in seen.values())
    at, ahead = torch.arange(4, T)[None], torch.arange(T, T + 512)[None]
    key, _ = apply_rotary_pos_emb(key[None], key[None], *model.model.rotary_emb(key, at))
    axes = torch.eye(16)[:, None].expand(-1, 512, -1)[None]
    turned, _ = apply_rotary_pos_emb(axes, axes, *model.model.rotary_emb(axes, ahead))
    turn = turned[0].mean(1)  # (D, D)
    weights = []
    for head in range(4):
        drawn = query[head]
        mean, spread = drawn.mean(0) @ turn, turn.T @ torch.cov(drawn.T, correction=0) @ turn
        keys, norms = key[0, head // 2], value[head // 2].norm(dim=-1)
        exponent = keys @ mean / 4 + torch.einsum("td,de,te->t", keys, spread, keys) / 32
        weight = exponent.softmax(0) * norms
        weights.append(torch.cat([weight.max().expand(4), weight]))
    layers: list[Layer] = []
    visit_layers(model, context.tokens[None], layers.append)
    torch.testing.assert_close(expected(layers[1], rotation(model), T), torch.stack(weights), rtol=1e-3, atol=1e-6)
    scores = [per_block(expected(each, rotation(model), T)).mean(0) for each in layers]
    torch.testing.assert_close(ExpectedAttention().score(context), torch.stack(scores).mean(0))


def test_expected_attention_refuses_what_rotates_otherwise() -> None:
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    for config in (CohereConfig(vocab_size=40, **small), GPT2Config(vocab_size=40, n_embd=32, n_layer=1, n_head=2)):
        with pytest.raises(ValueError, match="expected_attention: expected a model with one rotary embedding"):
            rotation(AutoModelForCausalLM.from_config(config))


def test_bm25_finds_the_words_of_the_question(loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase]) -> None:
    model, tokenizer = loaded
    said = ["The code for NARO is 4821.", " The code for BELU is 17.", " Nothing else."]
    parts = [tokenizer(text).input_ids for text in said]
    spans, at = [], 0
    for part in parts:
        spans.append(Span(at, at + len(part)))
        at += len(part)
    question = torch.tensor(tokenizer("What is the code for BELU?<|end|>").input_ids)
    asked = Context(model, torch.tensor([token for part in parts for token in part]), tuple(spans), question)
    scores = score_checked(BM25(tokenizer), asked)
    assert scores.argsort(descending=True).tolist()[:1] == [1]
    assert scores.tolist() == pytest.approx(bm25("What is the code for BELU?", said))


def test_question_likelihood_is_what_the_question_weighs_after_a_block_alone(asked: Context) -> None:
    assert asked.question is not None
    expected = []
    for span in BLOCKS:
        row = torch.cat([asked.tokens[: BLOCKS[0].start], asked.tokens[span.start : span.stop], asked.question])
        with torch.no_grad():
            chances = asked.model(row[None]).logits[0].log_softmax(-1)
        expected.append(sum(float(chances[i - 1, row[i]]) for i in range(len(row) - Q, len(row))))
    torch.testing.assert_close(QuestionLikelihood().score(asked), torch.tensor(expected), rtol=1e-4, atol=1e-3)


def test_words_adds_the_weights_of_the_different_words(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    model, tokenizer = loaded
    said = ["We use the corpus. ", "We use the use. ", "Thanks to all. "]
    rows = [tokenizer(text).input_ids for text in said]
    stops = torch.tensor([len(row) for row in rows]).cumsum(0).tolist()
    spans = tuple(Span(stop - len(row), stop) for row, stop in zip(rows, stops, strict=True))
    policy = Words(tokenizer)
    found = policy.score(Context(model, torch.tensor([token for row in rows for token in row]), spans))
    weights = policy.weights.weights.weight.detach()
    weight = {
        word: float(weights[bucket])
        for word in ["we", "use", "the", "corpus", "thanks", "to", "all"]
        for bucket in buckets(word)
    }
    expected = [
        float(policy.weights.bias.detach()) + sum(weight[word] for word in words)
        for words in (("we", "use", "the", "corpus"), ("we", "use", "the"), ("thanks", "to", "all"))
    ]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert len({*found.tolist()}) == 3


def test_recency_prefers_the_end(context: Context) -> None:
    assert Recency().score(context).argsort(descending=True).tolist() == [3, 2, 1, 0]


def test_random_depends_on_seed_and_document_alone(context: Context) -> None:
    other = Context(context.model, context.tokens.flip(0), BLOCKS)
    found = [policy.score(one).tolist() for policy in (Random(0), Random(1)) for one in (context, other)]
    assert len({tuple(scores) for scores in found}) == 4
    assert Random(0).score(context).tolist() == found[0]


def test_the_oracle_puts_evidence_first_in_document_order(context: Context) -> None:
    scores = Oracle(frozenset({3, 1})).score(context)
    assert scores.sort(descending=True, stable=True).indices.tolist() == [1, 3, 0, 2]
    assert Oracle(frozenset()).score(context).tolist() == [0.0] * N
    with pytest.raises(ValueError, match="keep set: expected block numbers"):
        Oracle(frozenset({4})).score(context)


def every_policy(tokenizer: PreTrainedTokenizerBase) -> Iterator[Policy]:
    yield from (build_policy(name, tokenizer) for name in POLICIES)
    yield Oracle(frozenset({1}))


def test_all_policies_keep_the_same_manners(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase], context: Context, asked: Context
) -> None:
    state = torch.random.get_rng_state()
    for policy in every_policy(loaded[1]):
        for one in (context, asked):
            if one.regime not in policy.regimes:
                with pytest.raises(ValueError, match=f"{policy.name}: expected a context of regime"):
                    score_checked(policy, one)
                continue
            first, second = score_checked(policy, one), score_checked(policy, one)
            assert first.shape == (N,)
            assert first.dtype == torch.float32
            assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_pre_query_scores_do_not_change_with_a_question(context: Context, asked: Context) -> None:
    assert context.batch.shape == (1, T)
    assert asked.batch.shape == (1, T + Q)
    assert not torch.allclose(SnapKV().score(context), SnapKV().score(asked))


def test_every_policy_is_in_the_list_with_a_name_and_a_title(
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    built = {name: find_policy(name, loaded[1]) for name in POLICIES}
    assert [policy.name for policy in built.values()] == list(POLICIES)
    titles = [policy.title for policy in every_policy(loaded[1])]
    assert len(set(titles)) == len(titles)
    files = {path.stem for path in Path(policies.__file__).parent.glob("*.py")}
    assert files - {"__init__", "policy", "oracle", "routed"} == set(POLICIES)


class Broken:
    name = "broken"
    title = "broken"
    regimes = frozenset({"pre_query"})

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores

    def score(self, context: Context) -> Tensor:
        return self.scores


@pytest.mark.parametrize("scores", [torch.zeros(N + 1), torch.tensor([0.0, 1.0, torch.nan, 0.0])])
def test_scores_of_the_wrong_shape_or_nan_are_refused(context: Context, scores: Tensor) -> None:
    with pytest.raises(ValueError, match="broken: expected one finite score per block"):
        score_checked(Broken(scores), context)


def test_bad_contexts_are_refused(context: Context) -> None:
    with pytest.raises(ValueError, match="tokens: expected whole numbers"):
        Context(context.model, context.tokens[None], BLOCKS)
    with pytest.raises(ValueError, match="question: expected whole numbers"):
        Context(context.model, context.tokens, BLOCKS, torch.zeros(0, dtype=torch.long))
    with pytest.raises(ValueError, match="blocks: expected at least one"):
        Context(context.model, context.tokens, ())
    with pytest.raises(ValueError, match="policy: expected one of h2o"):
        build_policy("h3o", None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunk_tokens: expected at least 1"):
        KVzip(None, 0)  # type: ignore[arg-type]
