"""The server: this machine alone, large requests refused, what is missing said in one line."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keepset.cli import app
from keepset.explore import server
from keepset.explore.claims import read_claims
from keepset.explore.server import Guard, free_port

ROOT = Path(__file__).parents[2]


def request(body: list[bytes], length: int | None = None) -> tuple[int, dict[bytes, bytes], int]:
    """Status and headers that a client gets, and the bytes that the application saw."""
    seen, sent = 0, []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal seen
        more = True
        while more:
            message = await receive()
            seen += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"yes"})

    async def receive() -> Any:
        part = body.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(body)}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "headers": headers}
    asyncio.run(Guard(application, most_bytes=100)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), seen


def test_a_request_passes_and_the_browser_is_told_to_stay_here() -> None:
    status, headers, seen = request([b"a" * 60, b"b" * 40], length=100)
    assert (status, seen) == (200, 100)
    assert b"connect-src 'self'" in headers[b"content-security-policy"]


@pytest.mark.parametrize("length", [None, 5, 101])
def test_a_large_request_is_refused_whatever_it_says_of_itself(length: int | None) -> None:
    status, _, seen = request([b"a" * 60, b"b" * 60, b"c" * 60], length)
    assert status == 413
    assert seen <= 60


def test_a_port_that_is_taken_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind((server.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port: expected a free one on 127.0.0.1, got {port}; choose another"):
            free_port(port)
        assert free_port(None) != port


def test_without_gradio_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["explore"])
    assert isinstance(result.exception, ValueError)
    assert "pip install 'keepset[explore]'" in str(result.exception)


def test_results_without_claims_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: name)
    result = CliRunner().invoke(app, ["explore", "--results", str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert str(result.exception).startswith("results: expected a folder with claims.json, as 'keepset report' writes")


def test_the_repository_has_claims_and_their_figures(tmp_path: Path) -> None:
    found = read_claims(ROOT / "docs" / "results")
    assert found is not None
    claims, figures = found
    assert {name for section in claims.sections for name in section.figures} == set(figures)
    assert all("<svg" in svg for svg in figures.values())
    assert read_claims(tmp_path) is None
