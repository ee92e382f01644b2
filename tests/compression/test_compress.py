"""Text in, text out: what is kept is whole, in order, within the budget, and what the scores say."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keepset.compression import Compressor, compress_stream
from keepset.compression.compressor import SHIPPED, cut, parse_text_budget, text_budget
from keepset.models.bundled import fetched
from keepset.pruning.budget import Budget
from keepset.routers.text import load_text_router
from keepset.text.prompt import encode
from keepset.text.split import split_blocks
from tests.tiny_compressor import TEXT, save_reader, tiny_compressor, tiny_router

SENTENCES = [TEXT[start:stop] for start, stop in split_blocks(TEXT, "sentence")]


def sentences_of(short: str) -> list[str]:
    return [sentence.strip() for sentence in SENTENCES if sentence.strip() in short]


@pytest.mark.parametrize("question", [None, "Who ran the pier?"])
@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6, 1.0, 40])
def test_sentences_stay_whole_and_in_order_and_within_the_budget(budget: float | int, question: str | None) -> None:
    short = tiny_compressor().compress(TEXT, budget, question)
    kept = [TEXT[start:stop] for start, stop in short.kept]
    assert "".join(kept).strip() == short.text
    assert [list(pair) for pair in short.kept] == sorted([list(pair) for pair in short.kept])
    edges = {edge for span in split_blocks(TEXT, "sentence") for edge in span}
    assert {edge for pair in short.kept for edge in pair} <= edges
    limit = budget if isinstance(budget, int) else budget * short.tokens_before
    assert 0 < short.tokens_after <= limit


def test_everything_fits_into_all_of_it() -> None:
    short = tiny_compressor().compress(TEXT, 1.0)
    assert short.text == TEXT
    assert short.kept == ((0, len(TEXT)),)
    assert short.tokens_after == short.tokens_before == len(encode(tiny_compressor().loaded[1], TEXT)[0])


def test_the_best_scored_sentences_are_the_ones_kept() -> None:
    places, scores = tiny_compressor().score(TEXT)
    short = tiny_compressor().compress(TEXT, 0.3)
    inside = [any(start <= place[0] < stop for start, stop in short.kept) for place in places]
    assert inside[int(scores.argmax())]
    assert 0 < sum(inside) < len(inside)


def test_a_question_changes_what_a_sentence_is_worth() -> None:
    _, before = tiny_compressor().score(TEXT)
    _, one = tiny_compressor().score(TEXT, "Who ran the pier?")
    _, other = tiny_compressor().score(TEXT, "What do visitors pay?")
    assert not torch.allclose(one, other)
    assert not torch.allclose(before, one)


def test_a_sentence_longer_than_the_budget_is_kept_rather_than_nothing() -> None:
    short = tiny_compressor().compress("A single sentence that is far longer than what there is room for.", 0.01)
    assert short.text.startswith("A single sentence")


def test_texts_in_a_list_share_the_room() -> None:
    alone = tiny_compressor().compress_together([TEXT, "Two plus two is four. It rains.", " \n"], 0.3)
    before = sum(short.tokens_before for short in alone)
    assert sum(short.tokens_after for short in alone) <= 0.3 * before
    assert [short.tokens_before for short in alone][2] == 0
    assert alone[2].text == ""


def test_one_text_scores_the_same_alone_and_in_a_list_of_one() -> None:
    assert tiny_compressor().compress_together([TEXT], 0.4)[0] == tiny_compressor().compress(TEXT, 0.4)


def test_a_text_longer_than_the_readers_positions_is_read_in_windows() -> None:
    long = "\n\n".join(f"{TEXT} Number {i} is written here." for i in range(40))
    reader, tokenizer = tiny_compressor().loaded
    assert len(encode(tokenizer, long)[0]) > reader.config.max_position_embeddings
    short = tiny_compressor().compress(long, 0.1)
    assert 0 < short.tokens_after <= 0.1 * short.tokens_before


@given(st.text(min_size=1, max_size=200).filter(lambda text: bool(text.strip())))
def test_any_text_is_cut_into_spans_that_hold_all_its_tokens(text: str) -> None:
    _, tokenizer = tiny_compressor().loaded
    tokens, offsets = encode(tokenizer, text)
    places, spans = cut(text, offsets, "sentence")
    assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
    assert spans[-1].stop == len(tokens)
    assert "".join(text[start:stop] for start, stop in places).strip() == text.strip()


def test_a_stream_of_one_part_is_the_whole_text() -> None:
    lines = TEXT.splitlines(keepends=True)
    assert list(compress_stream(lines, tiny_compressor(), 0.4)) == [tiny_compressor().compress(TEXT, 0.4).text]


def test_a_stream_comes_out_part_by_part_before_it_ends() -> None:
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield from (line for line in (TEXT + "\n\n").splitlines(keepends=True))

    stream = compress_stream(endless(), tiny_compressor(), 0.4, part=2 * len(TEXT))  # type: ignore[arg-type]
    first, second = next(stream), next(stream)
    assert first
    assert second
    assert read < 8
    assert all(sentence in TEXT for sentence in sentences_of(first))


def test_a_stream_without_paragraphs_comes_out_before_it_ends() -> None:
    line = TEXT.replace("\n", " ") + "\n"
    left = iter([line] * 9)
    next(compress_stream(left, tiny_compressor(), 0.4, part=len(line)))
    assert len(list(left)) == 6, "two lines were a part, and the one after them said so"


@pytest.mark.parametrize("text", ["", "  \n "])
def test_no_text_is_one_clear_line(text: str) -> None:
    with pytest.raises(ValueError, match="text: expected some text to compress"):
        tiny_compressor().compress(text, 0.5)


def test_an_empty_question_is_one_clear_line() -> None:
    with pytest.raises(ValueError, match="question: expected some text, got ' '"):
        tiny_compressor().compress(TEXT, 0.5, " ")


def test_budgets_are_shares_or_numbers_of_tokens() -> None:
    assert text_budget(0.25) == Budget.share_of_tokens(0.25)
    assert text_budget(500) == parse_text_budget("500") == Budget.tokens(500)
    assert parse_text_budget("0.1") == Budget.share_of_tokens(0.1)
    for wrong in ("a lot", "-1", "1.5", "0"):
        with pytest.raises(ValueError, match="budget: expected"):
            parse_text_budget(wrong)
    with pytest.raises(ValueError, match="budget: expected a share of the tokens"):
        text_budget("0.1")  # type: ignore[arg-type]


def test_a_saved_router_gives_the_same_text(tmp_path: Path) -> None:
    tiny_router().save_pretrained(tmp_path / "router")
    again = Compressor(tmp_path / "router", reader=str(save_reader(tmp_path / "reader")))
    for question in (None, "Who ran the pier?"):
        assert again.compress(TEXT, 0.4, question) == tiny_compressor().compress(TEXT, 0.4, question)


def test_another_reader_is_refused(tmp_path: Path) -> None:
    from keepset.paper.bench.models import tiny_model

    model, tokenizer = tiny_model()
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight += 0.1
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="model: expected the one this router was trained for"):
        Compressor(tiny_router(), reader=str(tmp_path)).compress(TEXT, 0.5)


def test_a_reader_that_is_nowhere_is_asked_for() -> None:
    with pytest.raises(ValueError, match="reader: expected where the model"):
        Compressor(tiny_router()).compress(TEXT, 0.5)


def test_the_shipped_router_is_small_and_says_what_it_reads() -> None:
    router = load_text_router(SHIPPED)
    assert router.reads.name == "smollm2-135m-instruct"
    assert router.blocks == "sentence"
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 600_000
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    for needed in ("SQuAD", "QASPER", "CC BY-SA 4.0", "CC BY 4.0", "Limits"):
        assert needed in card


def test_the_shipped_router_finds_the_sentence_that_answers() -> None:
    if fetched("smollm2-135m-instruct") is None:
        pytest.skip("smollm2-135m-instruct is not fetched on this machine")
    short = Compressor().compress(TEXT, 0.25, "Who ran the pier until the war?")
    assert "Dr. Vane ran it until the war!" in short.text


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.compress(None, 0.5), "text: expected some text, got NoneType"),
        (lambda c: c.compress(b"The pier.", 0.5), "text: expected some text, got bytes"),
        (lambda c: c.compress("bad \udcff", 0.5), "text: expected text in UTF-8, got bytes that are not"),
        (lambda c: c.compress_together("The pier.", 0.5), "texts: expected a list of texts, got str"),
        (lambda c: c.compress_together(None, 0.5), "texts: expected a list of texts, got NoneType"),
        (lambda c: c.compress_together(["The pier.", 3], 0.5), "text: expected some text, got int"),
        (lambda c: c.compress("The pier.", 0.5, 7), "question: expected some text, got int"),
        (lambda c: c.compress("The pier.", 0.5, "\udcff"), "question: expected text in UTF-8"),
        (lambda c: c.score(None), "text: expected some text, got NoneType"),
    ],
)
def test_wrong_types_are_named(call: Callable[[Compressor], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(tiny_compressor())
