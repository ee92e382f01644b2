"""The quickstart on an untrained model, asked for what that model itself says: real labels, routers and pruning."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import keepset
from keepset.interventions import Ask, Fast
from keepset.jobs.labelling import LabelRow
from keepset.paper.bench.models import tiny_model
from keepset.policies import POLICIES
from keepset.quickstart import RIVALS, Fact, FactSheet, QuickstartSize, run_on, run_quickstart, sample_sheets
from keepset.quickstart_page import (
    MARKS,
    PolicyCount,
    QuickstartOutcome,
    evidence_table,
    policy_table,
    quickstart_figure,
    quickstart_page,
    verdict,
)
from keepset.seeds import EVALUATION, ROUTER_DOCUMENTS
from keepset.text.example import text_example

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]
SIZE = QuickstartSize(steps=5, budgets=(0.3, 0.6))


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    model, tokenizer = tiny_model()
    with torch.no_grad():  # untrained it is nearly indifferent to what it sees, and then nothing hidden would be missed
        model.lm_head.weight *= 20
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 20
    return model, tokenizer


def own_sheets(loaded: Loaded, first: int, n: int) -> list[FactSheet]:
    """Documents of ten lines; the right answer is what the model says first when it reads everything."""
    model, tokenizer = loaded
    sheets = []
    for number in range(first, first + n):
        text = "\n".join(f"The code for NARO{i} is {1000 + 37 * i * number}." for i in range(10))
        facts = []
        for line in (2, 7):
            question = f"What is the code for NARO{line}?"
            example = text_example(tokenizer, text, question, "1", "line")
            whole = frozenset(range(len(example.blocks)))
            ((written,),) = Fast(model).generate([Ask(example, whole, ((1,),))], 1, frozenset())
            answer = tokenizer.decode(list(written))
            if answer.strip() == answer and answer.isprintable() and "\ufffd" not in answer:
                facts.append(Fact(question, answer, line))
        sheets.append(FactSheet(text, tuple(facts)))
    return sheets


def test_everything_that_is_promised_is_there(loaded: Loaded, tmp_path: Path) -> None:
    console = Console(record=True, width=140)
    out = tmp_path / "out"
    training, held_out = own_sheets(loaded, 1, 8), own_sheets(loaded, 20, 3)
    outcome = run_on(*loaded, training, held_out, out, console, SIZE)
    assert outcome.documents == 3
    assert outcome.answers == sum(len(sheet.facts) for sheet in held_out) > 0
    assert outcome.labelled_questions == sum(len(sheet.facts) for sheet in training)
    titles = [POLICIES[name](loaded[1]).title for name in RIVALS]
    assert list(outcome.rows()) == ["causal router", "imitation router", *titles, "evidence, known"]
    assert all(len(counts) == 2 for counts in outcome.rows().values())
    assert all(0 <= count.preserved <= outcome.answers for count in outcome.counts)
    assert all(count.cost > 0 for count in outcome.counts)
    (told,) = (counts for title, counts in outcome.rows().items() if title == "evidence, known")
    assert [count.facts_kept for count in told] == [outcome.answers] * 2
    text = " ".join(console.export_text().split())
    for said in (
        "enough",
        "causal router",
        f"of {outcome.answers} in 3 documents (95 % interval)",
        "What choosing took, beside reading the document once: causal router ",
    ):
        assert said in text
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    pruned = keepset.Pruner(*loaded, policy=out / "router").prune(held_out[0].text, 0.25)
    assert len(pruned.record.blocks) == 10
    again = run_on(*loaded, training, held_out, out, console, SIZE)  # over its own files
    assert [count.preserved_each for count in again.counts] == [count.preserved_each for count in outcome.counts]


def test_facts_stand_on_lines_of_their_own(loaded: Loaded) -> None:
    sheets = [
        sheet
        for seed_range in (ROUTER_DOCUMENTS, EVALUATION)
        for sheet in sample_sheets(loaded[1], seed_range, 1_024, 2)
    ]
    assert len({sheet.text for sheet in sheets}) == 4
    for sheet in sheets:
        assert len(sheet.facts) == 4
        for fact in sheet.facts:
            number = fact.answer.split()[-1]
            assert number.removesuffix(".").isdigit()
            assert number in sheet.text.splitlines()[fact.line]
            subject = fact.question.removeprefix("What is the ").removesuffix("?")
            assert fact.answer == f"The {subject} is {number}"
            assert sheet.text.count(number) == 1


def test_the_legend_covers_no_point_and_words_say_what_was_counted() -> None:
    counts = tuple(
        PolicyCount(title, budget, (preserved - 10, 10), preserved, 0.25, told=title == "evidence, known")
        for title, low in (("causal router", 18), ("KVzip", 18), ("evidence, known", 20))
        for budget, preserved in ((0.1, low), (0.25, 20))
    )
    outcome = QuickstartOutcome("tiny", 1_024, 12, 48, (10, 10), counts)
    assert "10% of the lines kept the causal router preserves 18 of 20 answers" in verdict(outcome)
    assert "the best other policy, KVzip, 18. With 25%" in verdict(outcome)
    picture = quickstart_figure(outcome)
    legend, axes = picture.index('id="legend_1"'), picture.index('id="patch_2"')
    tops = [float(picture[at:].split('d="M ', 1)[1].split()[1]) for at in (legend, axes)]
    assert tops[0] < tops[1], "above the axes"
    assert len({marker for marker, _, _ in MARKS}) == len(MARKS), "budgets are told apart without colours"
    assert outcome.share(counts[0])[0] == 0.9
    assert outcome.share(counts[0])[1] < 0.9 < outcome.share(counts[0])[2]


def on_80_columns(table: Table) -> str:
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    titles = ("imitation router", "KVzip, max over heads")
    counts = tuple(PolicyCount(t, budget, (3, 2, 3), 8, 12.34, False) for t in titles for budget in (0.1, 0.25))
    text = on_80_columns(policy_table(QuickstartOutcome("tiny", 1_024, 8, 32, (4, 4, 4), counts)))
    assert all(title in text for title in titles)
    assert "…" not in text


def test_the_terminal_shows_a_fact_to_its_end() -> None:
    line = "One of the special magic numbers for offbeat-zone is: 2908551."
    row = LabelRow.model_construct(
        question="What is it?",
        answer="2908551.",
        blocks=[line],
        n_blocks=1,
        attention=[0.1],
        sufficient=[True],
        evidence=[0],
    )
    assert "is: 2908551." in " ".join(on_80_columns(evidence_table(row)).replace("│", " ").split())


def test_the_page_says_how_much_an_interval_tells() -> None:
    alike, apart = (3, 3, 3, 3, 3, 3, 0), (4, 4, 4, 4, 2, 0, 0)
    counts = (PolicyCount("<causal>", 0.1, alike, 17, 0.1, False), PolicyCount("KVzip", 0.1, apart, 8, 3.2, False))
    outcome = QuickstartOutcome("tiny", 1_024, 12, 48, (4, 4, 4, 4, 4, 4, 4), counts)
    page = quickstart_page(outcome, [])
    assert "intervals overlap" in page
    assert '0.64 <span class="soft">(' in page
    assert "<td>3.20</td>" in page
    widths = [high - low for _, low, high in map(outcome.share, counts)]
    assert widths[0] < widths[1], "where documents differ more, so many answers say less"
    assert "&lt;causal&gt;" in page.split("</svg>")[1]


def test_a_folder_with_other_things_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="expected an empty folder or an earlier quickstart"):
        run_quickstart(tmp_path, Console())
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_model_that_answers_nothing_is_said_so(loaded: Loaded, tmp_path: Path) -> None:
    training, held_out = own_sheets(loaded, 1, 8), own_sheets(loaded, 20, 1)
    wrong = [replace(held_out[0], facts=(Fact("What is the code for NARO2?", "nothing at all", 2),))]
    with pytest.raises(ValueError, match="expected the model to answer some questions"):
        run_on(*loaded, training, wrong, tmp_path / "out", Console(quiet=True), SIZE)
