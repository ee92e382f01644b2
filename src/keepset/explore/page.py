"""The page: components and events. What it shows is computed and drawn elsewhere; every visitor has an own state.

Whatever runs the model is one at a time (``MODEL``); moving the slider shows what is kept without waiting for that.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from keepset.explore.asking import Refusal, ask
from keepset.explore.claims import PaperClaims
from keepset.explore.drawn_asking import drawn_refusal, drawn_report
from keepset.explore.drawn_claims import ALL, NOT_INSTALLED, drawn_claims, verdicts
from keepset.explore.drawn_keeping import ASK_FIRST, drawn_comparison, drawn_cut
from keepset.explore.explorer import Explorer, OutOfTime, Visit, watched
from keepset.explore.keeping import compare, cut, policy_titles, rank
from keepset.explore.samples import SAMPLES, Sample
from keepset.terminal import one_line

MODEL: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "model", "api_visibility": "private"}
"""Events that run the model."""
QUICK: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "quick", "api_visibility": "private"}
"""Events that do not, and wait for none that does."""
LAST = "always_last"
"""Of many moves while one is worked on, the last is done next."""
TEXT_FILES = [".txt", ".md", ".rst", ".csv", ".log"]
FIRST_BUDGET = 30
"""Per cent of the sentences."""
STATE_SECONDS = 3600.0
"""After which what a visitor who left has found is forgotten."""


def build_page(explorer: Explorer, paper: tuple[PaperClaims, dict[str, str]] | None) -> gr.Blocks:
    """Three tabs: what a reply rests on, what to keep, the paper."""
    page = gr.Blocks(title="keepset explore", analytics_enabled=False, delete_cache=(600, 600))
    with page:
        visit = gr.State(Visit(), time_to_live=STATE_SECONDS)
        _html(
            f"<h1>keepset</h1><p>Find the sentences that a reply of {escape(explorer.name)} rests on, and keep only "
            "those. Everything stays on this machine.</p>"
        )
        with gr.Tabs():
            with gr.Tab("What it rests on"):
                _asking_tab(explorer, visit)
            with gr.Tab("What to keep", elem_id="keep") as keep_tab:
                _keeping_tab(explorer, visit, keep_tab)
            with gr.Tab("The paper"):
                _paper_tab(paper)
    page.queue(max_size=explorer.limits.waiting)
    return page


def _html(value: str = "", name: str | None = None) -> gr.HTML:
    return gr.HTML(value, elem_classes=["keepset"], elem_id=name, js_on_load=None, apply_default_css=False)


def _asking_tab(explorer: Explorer, visit: gr.State) -> None:
    _html("<p class='soft'>Try an example, or paste a text of your own.</p>")
    with gr.Row(elem_id="examples"):
        buttons = [gr.Button(sample.title, size="sm", min_width=140) for sample in SAMPLES]
    look = _html(name="look")
    document = gr.Textbox(label="Document", lines=8, max_lines=16, placeholder="Paste a text here.", elem_id="document")
    load = gr.UploadButton("Load a text file", file_types=TEXT_FILES, type="binary", size="sm")
    question = gr.Textbox(label="Question", placeholder="Ask something about it.", elem_id="question")
    hidden = gr.Checkbox(label="Also hide every sentence in turn, to see which are needed (about twice the time)")
    asked = gr.Button("Ask", variant="primary", elem_id="ask")
    result = _html(name="result")
    go_on = gr.Button("Go on all the same", visible=False, elem_id="go-on")

    def run(text: str, said: str, every: bool, however_long: bool, progress: gr.Progress) -> tuple[Any, ...]:
        def show(share: float) -> None:
            progress(share, desc="reading with sentences hidden")

        found = ask(explorer, text, said, every, however_long, show)
        if isinstance(found, Refusal):
            return Visit(), drawn_refusal(found), gr.update(visible=found.may_go_on)
        return Visit(found), drawn_report(found), gr.update(visible=False)

    def first(text: str, said: str, every: bool, progress: gr.Progress = gr.Progress()) -> tuple[Any, ...]:  # noqa: B008
        return run(text, said, every, False, progress)

    def again(text: str, said: str, every: bool, progress: gr.Progress = gr.Progress()) -> tuple[Any, ...]:  # noqa: B008
        return run(text, said, every, True, progress)

    def load_text(written: bytes) -> tuple[Any, str]:
        try:
            return written.decode("utf-8-sig"), ""
        except UnicodeDecodeError:
            return gr.skip(), drawn_refusal(Refusal("That file is not text in UTF-8; nothing was loaded."))

    inputs, outputs = [document, question, hidden], [visit, result, go_on]
    asked.click(first, inputs, outputs, show_progress_on=result, **MODEL)
    question.submit(first, inputs, outputs, show_progress_on=result, **MODEL)
    go_on.click(again, inputs, outputs, show_progress_on=result, **MODEL)
    load.upload(load_text, load, [document, look], **QUICK)
    for button, sample in zip(buttons, SAMPLES, strict=True):
        button.click(_loader(sample), None, [document, question, look], **QUICK)


def _loader(sample: Sample) -> Any:
    return lambda: (sample.text, sample.question, f"<p class='soft'>{sample.look}</p>")


def _keeping_tab(explorer: Explorer, visit: gr.State, tab: gr.Tab) -> None:
    titles = policy_titles(explorer)
    choices = [(title, name) for name, title in titles.items()]
    with gr.Row(elem_id="ranking"):
        policy = gr.Dropdown(choices, value=next(iter(titles)), label="Ranked by", elem_id="policy", filterable=False)
        budget = gr.Slider(5, 100, FIRST_BUDGET, step=5, label="Keep, per cent of the sentences", elem_id="budget")
    reads = gr.Checkbox(label="The question is known when the document is cut")
    kept = _html(f"<p>{ASK_FIRST}</p>", "kept")
    answers = _html(name="answers")

    def rank_once(found: Visit, name: str, wants: bool) -> tuple[Visit, Any]:
        report, problem = found.report, gr.skip()
        if report is not None and (name, wants) not in found.rankings:
            try:
                with _in_time(explorer):
                    found.rankings[name, wants] = rank(explorer, report, name, wants)
            except ValueError as error:
                problem = drawn_refusal(Refusal(one_line(str(error))))
        return found, problem

    def show(found: Visit, name: str, wants: bool, share: float) -> Any:
        ranking = found.rankings.get((name, wants))
        if found.report is None:
            return f"<p>{ASK_FIRST}</p>"
        return "" if ranking is None else drawn_cut(found.report, cut(ranking, share / 100))

    def answer(found: Visit, name: str, wants: bool, share: float) -> Iterator[Any]:
        ranking = found.rankings.get((name, wants))
        if found.report is None or ranking is None:  # where ranking failed, the reason stands there
            yield "" if found.report is None else gr.skip()
            return
        try:
            with _in_time(explorer):
                for comparison in compare(explorer, found, cut(ranking, share / 100)):
                    yield drawn_comparison(found.report, comparison)
        except OutOfTime as error:
            yield drawn_refusal(Refusal(str(error)))

    chosen, shown = [visit, policy, reads], [visit, policy, reads, budget]
    quiet: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": LAST}
    for trigger in (tab.select, policy.change, reads.change):
        ranked = trigger(rank_once, chosen, [visit, answers], show_progress_on=kept, trigger_mode=LAST, **MODEL)
        ranked.then(show, shown, kept, **quiet, **QUICK).then(answer, shown, answers, **quiet, **MODEL)
    budget.change(show, shown, kept, **quiet, **QUICK).then(answer, shown, answers, **quiet, **MODEL)


def _in_time(explorer: Explorer) -> Any:
    """Without a bar: nobody knows beforehand how often a policy reads."""
    return watched(explorer.model, 1, explorer.limits.most_seconds, lambda share: None)


def _paper_tab(paper: tuple[PaperClaims, dict[str, str]] | None) -> None:
    if paper is None:
        _html(f'<p class="note">{NOT_INSTALLED}</p>', "claims")
        return
    claims, figures = paper
    wanted = gr.Radio([ALL, *verdicts(claims)], value=ALL, label="Verdict")
    shown = _html(drawn_claims(claims, figures), "claims")
    wanted.change(lambda verdict: drawn_claims(claims, figures, verdict), wanted, shown, **QUICK)
