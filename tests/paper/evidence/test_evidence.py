"""The whole benchmark on a tiny model and three tiny questions: every tool, every table, every claim."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.paper.bench.engine import peers
from keepset.paper.bench.engine.run import spend
from keepset.paper.bench.models import TINY
from keepset.paper.claim import FAILS, HOLDS, OPEN
from keepset.paper.evidence import run
from keepset.paper.evidence.about import DEV, KINDS, OTHER, OWN, SAME, TUNE, asked_of, auc, choose_threshold, shares
from keepset.paper.evidence.claims import at_least, at_most, nothing_better
from keepset.paper.evidence.focus import EVERYTHING, GOLD, READS, focus_claims, focus_table, pointing, pooled
from keepset.paper.evidence.found import FOLDER as FOUND_FOLDER
from keepset.paper.evidence.found import GIVEN, OWN_REPLY, passages
from keepset.paper.evidence.measure import told, truth_of
from keepset.paper.evidence.paired import paired_table
from keepset.paper.evidence.replies import PARAGRAPH_REPLIES, REPLIES, SENTENCES, article_questions, article_units
from keepset.paper.evidence.reply_tables import among, replies_table, reply_kinds_table
from keepset.paper.evidence.run import ARTICLES, SQUAD, TWO_HOP, file_name, jobs
from keepset.paper.evidence.tables import (
    COMPARED,
    KEEPSET,
    Pool,
    about_table,
    correlation,
    found_table,
    squad_table,
    two_hop_table,
)
from keepset.paper.evidence.tools import AS_INSTALLED, GRADIENT, PEERS, TOOLS
from keepset.paper.evidence.units import FILES
from keepset.paper.result import Metric, RunResult
from keepset.paper.results import Results, read_results
from keepset.text.squad import read_squad

pytestmark = pytest.mark.long


def peers_installed() -> bool:
    try:
        peers.load_captum()
        peers.load_context_cite()
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two articles of two paragraphs, and one of a paragraph too long for the tools, in both files."""
    folder = tmp_path_factory.mktemp("data")
    log = " ".join(f"Ship {number} came at dawn." for number in range(10, 40))
    asked = {"id": "log", "question": "When?", "answers": [{"text": "Ship 17", "answer_start": log.index("Ship 17")}]}
    articles = [{"title": "Log", "paragraphs": [{"context": log, "qas": [asked]}]}]
    for title in ("Pier", "Mill"):
        paragraphs = []
        for number in range(2):
            facts = [f"The {title} had {word} {number}." for word in ("owner", "roof", "gate", "clock", "bell")]
            context = " ".join(facts)
            answer = f"gate {number}"
            asked = {
                "id": f"{title}{number}",
                "question": f"What did {title} {number} have?",
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            paragraphs.append({"context": context, "qas": [asked]})
        articles.append({"title": title, "paragraphs": paragraphs})
    for name in FILES.values():
        (folder / name).write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    return folder


@pytest.fixture(scope="module")
def results(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The smoke scale as it comes from disk, without the other tools where they are not installed."""
    folder = tmp_path_factory.mktemp("results")
    command = ["bench", "evidence", "--scale", "smoke", "--results", str(folder), "--data", str(data)]
    wanted = [tool for tool in TOOLS if tool not in PEERS or peers_installed()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "TOOLS", {tool: TOOLS[tool] for tool in wanted})
        for chosen in (["--only", "about"], []):  # the rest at once: what all tools are measured with is read once
            done = CliRunner().invoke(app, [*command, *chosen])
            assert done.exit_code == 0, done.output
    return read_results(folder, "smoke")


def test_every_tool_has_every_question_once(results: Results, data: Path) -> None:
    wanted = [tool for tool in TOOLS if tool not in PEERS or peers_installed()]
    names = [name for name in jobs("smoke", data) if not any(f"/{file_name(peer)}-" in name for peer in PEERS)]
    assert set(names) <= set(results.runs)
    for tool in wanted:
        for questions, n in ((SQUAD, 3), (ARTICLES, 1), (TWO_HOP, 2)):
            if tool == AS_INSTALLED:  # asked the first part of SQuAD alone
                continue
            pool = Pool(results, "tiny", questions, tool)
            assert pool.share("first").n == pool.mean("drop", top=3).n == n
        assert (Pool(results, "tiny", SQUAD, tool).cost("tokens").value == 0) == (tool == "bm25")


def test_costs_are_of_the_parts_in_which_every_tool_read_for_itself(results: Results) -> None:
    pool = Pool(results, "tiny", SQUAD, KEEPSET)
    assert pool.parts == [0, 1]
    assert pool.parts_with("seconds") == pool.parts_with("tokens") == [0]
    assert pool.cost("tokens").n == 2
    assert pool.parts_with("datamodelling") == [1], "random masks are read where costs are not told"
    assert correlation(pool).endswith(", n = 1")
    assert any("on the first 2 questions every tool read for itself" in note for note in squad_table(results).notes)


def test_tools_say_the_same_of_what_others_have_read(data: Path) -> None:
    (setting,) = run.settings("smoke")
    model, tokenizer = setting.loaded()
    unit = run.part_units(setting, data, SQUAD)[0]
    fresh, shared = (truth_of(unit, model, tokenizer, shared=shared).task for shared in (False, True))
    for name, make in TOOLS.items():
        if name in PEERS and not peers_installed():
            continue
        tool = make(model, tokenizer)
        assert tool(shared).scores == pytest.approx(tool(fresh).scores, abs=1e-4), name
        assert tool(shared).chosen == tool(fresh).chosen, name
        if name not in ("attention", GRADIENT, AS_INSTALLED):
            assert spend(model, partial(tool, shared)).tokens == 0, f"{name} read something twice"


def test_replies_to_parts_of_a_text_stand_beside_the_reply_to_all_of_it(results: Results) -> None:
    rows = focus_table(results).rows
    assert [row[1:3] for row in rows] == [("all", reads) for reads in READS.values()], "two of three were explained"
    assert {row[3] for row in rows} == {"3"}
    assert pointing(results, "tiny") is None
    assert [pooled(results, "tiny", "reads_gold", who).value for who in (EVERYTHING, GOLD)] == [1.0, 1.0]
    (claim,) = focus_claims(results)
    assert claim.verdict == OPEN, "three questions tell nothing"
    right = pooled(results, "tiny", "right", GOLD).each or ""
    assert pooled(results, "tiny", "right", GOLD, among="010").each == right[1]


def test_keepset_reads_less_than_tools_that_ablate(results: Results) -> None:
    tokens = {tool: Pool(results, "tiny", SQUAD, tool).cost("tokens").value for tool in TOOLS if tool not in PEERS}
    assert tokens[KEEPSET] <= tokens["keepset exact"]
    assert tokens["leave-one-out"] < tokens["arc-jsd"], "the same question, with common beginnings read once"


def test_tables_have_a_row_for_every_tool(results: Results) -> None:
    tools = results.coordinates("tool")
    others = [tool for tool in tools if tool != AS_INSTALLED]
    for table, asked in ((squad_table(results), tools), (two_hop_table(results), others)):
        assert [row[1] for row in table.rows][:4] == [tool for tool in TOOLS if tool.startswith("keepset")]
        assert len(table.rows) == len(asked)
        assert table.markdown()
        assert table.latex()
    (row,) = about_table(results).rows
    assert row[2] == "3"


def test_a_reply_to_a_question_of_25_sentences_is_explained(results: Results) -> None:
    (row,) = replies_table(results).rows
    assert row[:2] == (TINY, "1")
    pool = Pool(results, TINY, REPLIES)
    for what in ("right", "named", "pointed", "either", "quick"):
        assert pool.share(what).n == 1
    assert pool.share("either").value == max(pool.share("named").value, pool.share("pointed").value)
    assert pool.cost("tokens").value > SENTENCES


def test_own_replies_are_told_apart_by_whether_they_are_right(results: Results) -> None:
    rows = reply_kinds_table(results).rows
    assert sum(int(row[2]) for row in rows) == 2
    run = next(run for run in results.runs.values() if run.at.get("questions") == PARAGRAPH_REPLIES)
    each = {"right": "10", "pointed": "01"}
    told = tuple(one.model_copy(update={"each": each.get(one.what, one.each)}) for one in run.metrics)
    pool = Pool(Results({"evidence/told": run.model_copy(update={"metrics": told})}), TINY, PARAGRAPH_REPLIES)
    assert [(among(pool, "pointed", right).value, among(pool, "pointed", right).n) for right in "10"] == [
        (0.0, 1),
        (1.0, 1),
    ]


def test_files_that_nobody_prepared_are_asked_in_two_halves(results: Results) -> None:
    rows = found_table(results).rows
    assert [row[:4] for row in rows] == [
        (TINY, half, how, n) for half in ("1", "2") for how, n in ((OWN_REPLY, "2 + 1"), (GIVEN, "2"))
    ]


def test_every_gold_sentence_of_a_file_is_there_once() -> None:
    for passage in passages():
        assert bool(passage.gold) == (passage.answer is not None)
        for piece in passage.gold:
            assert passage.text.count(piece) == 1, (piece, passage.question)
    answered = [passage for passage in passages() if passage.gold]
    assert (len(answered), len(passages()) - len(answered)) == (34, 16)
    listed = (FOUND_FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert all(f"| {path.name} |" in listed for path in FOUND_FOLDER.glob("*.txt"))


def test_the_gold_sentence_of_an_article_is_where_the_answer_stands(data: Path) -> None:
    (asked,) = article_questions(data)
    start, stop = asked.sentences[asked.gold]
    assert asked.context[start:stop].strip() == "Ship 17 came at dawn."
    assert len(asked.sentences) == SENTENCES
    (unit,) = article_units(data)
    assert (unit.answer, unit.gold, unit.sentences) == ("Ship 17", {asked.gold}, asked.sentences)


def test_parts_come_before_tools(data: Path) -> None:
    names = list(jobs("small", data))
    first = names.index("evidence/smollm2-135m-instruct/squad/contextcite-64-0")
    assert first < names.index("evidence/smollm2-135m-instruct/squad/keepset-evidence-1")
    assert sum("/squad/bm25" in name for name in names) == 10 + 3 + 4, "the large one without and with int8 products"


def test_a_paragraph_is_asked_its_own_its_articles_and_another_question(data: Path) -> None:
    everybody = read_squad(data / FILES[DEV])
    for number, paragraph in enumerate(everybody):
        asked = dict(asked_of(paragraph, everybody, number))
        other_paragraphs = paragraph.article != "Log"
        assert tuple(asked) == (KINDS if other_paragraphs else (OWN, OTHER))
        assert asked[OWN] == paragraph.question
        assert paragraph.article not in asked[OTHER]
        if other_paragraphs:
            assert asked[SAME] != asked[OWN]
            assert paragraph.article in asked[SAME]


def test_the_threshold_refuses_at_most_its_share(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    own = shares(results, "tiny", TUNE, "own")
    assert choose_threshold(results, "tiny") == min(own), "of three none may be refused"
    assert "own 0 of 3" in capsys.readouterr().out
    with pytest.raises(ValueError, match="expected results of the tuning articles for other, got none"):
        choose_threshold(results, "other")
    assert auc([1, 2], [0, 1]) == pytest.approx(3.5 / 4)


def tool_run(tool: str, seconds: float, first: str) -> RunResult:
    metrics = [told(what, [one == "1" for one in first]) for what in ("first", "exactly")]
    metrics.append(Metric(what="seconds", value=seconds, n=len(first), low=seconds, high=seconds))
    at = {"model": "m", "questions": SQUAD, "tool": tool, "part": 0}
    fields = {"command": "", "config": {}, "seeds": {}, "commit": "", "versions": {}, "counts": {}, "seconds": 0}
    return RunResult(experiment="evidence", scale="smoke", at=at, metrics=tuple(metrics), **fields)


@pytest.mark.parametrize(
    ("seconds", "first", "verdict"),
    [
        (2.0, "1" * 30, HOLDS),  # better, and dearer
        (0.5, "1" * 10 + "0" * 20, HOLDS),  # cheaper, and as good
        (0.5, "1" * 12 + "0" * 18, OPEN),  # cheaper, and ahead by chance
        (0.5, "1" * 30, FAILS),
    ],
)
def test_a_cheaper_and_better_tool_is_named(seconds: float, first: str, verdict: str) -> None:
    runs = {tool: tool_run(tool, 9.0, "0" * 30) for tool in COMPARED}  # dear, and worse
    runs |= {KEEPSET: tool_run(KEEPSET, 1.0, "1" * 10 + "0" * 20), "captum": tool_run("captum", seconds, first)}
    results = Results(runs)
    claim = nothing_better(results, "m", Pool(results, "m", SQUAD, KEEPSET))
    assert claim.verdict == verdict
    assert ("Captum FeatureAblation" in claim.here) == (verdict != HOLDS)


def test_nothing_is_told_of_tools_that_were_not_run() -> None:
    results = Results({KEEPSET: tool_run(KEEPSET, 1.0, "1" * 30), "captum": tool_run("captum", 9.0, "0" * 30)})
    claim = nothing_better(results, "m", Pool(results, "m", SQUAD, KEEPSET))
    assert claim.verdict == OPEN
    assert claim.here == f"none of 1 run, of {len(COMPARED) - 1}"


def test_where_no_gradient_goes_through_none_is_waited_for() -> None:
    every = {tool: tool_run(tool, 9.0, "0" * 30) for tool in COMPARED if tool != GRADIENT}
    every[KEEPSET] = tool_run(KEEPSET, 1.0, "1" * 30)
    for model, verdict in (("m", OPEN), ("m-int8", HOLDS)):
        results = Results({k: run.model_copy(update={"at": run.at | {"model": model}}) for k, run in every.items()})
        assert nothing_better(results, model, Pool(results, model, SQUAD, KEEPSET)).verdict == verdict


def test_pairs_are_compared_on_the_questions_both_were_asked() -> None:
    ours, captum = tool_run(KEEPSET, 1.0, "1110"), tool_run("captum", 9.0, "1001")
    elsewhere = ours.model_copy(update={"at": ours.at | {"part": 1}})
    (row,) = paired_table(Results({"ours": ours, "captum": captum, "more of ours": elsewhere})).rows
    assert row == ("m", "Captum FeatureAblation", "4", *("0.50, 0.75", "1, 2; 1") * 2, "9.0, 1.0")


def test_a_bar_is_reached_missed_or_near() -> None:
    shares = [told("first", [True] * right + [False] * (100 - right)) for right in (100, 95, 30)]
    assert [at_least("x", metric, 0.95).verdict for metric in shares] == [HOLDS, OPEN, FAILS]
    assert [at_most("x", metric, 0.4).verdict for metric in shares] == [FAILS, FAILS, HOLDS]
