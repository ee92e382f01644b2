"""Serving the page on this machine: no telemetry, nothing loaded from elsewhere, no request larger than it need be."""

import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keepset.compression.compressor import Compressor
from keepset.explain.page import COLOURS, STYLE
from keepset.explore.claims import PaperClaims, read_claims
from keepset.explore.explorer import Explorer
from keepset.models.bundled import BUNDLED, fetched
from keepset.models.loading import load_model

HOST = "127.0.0.1"
PORTS = range(7860, 7960)
"""Tried one after the other where none is asked for."""
REPOSITORY_RESULTS = Path(__file__).parents[3] / "docs" / "results"
"""Where the results are in a clone; nowhere in an installed package."""
MOST_BYTES = 8_000_000
"""Of a request: room for a document that is too long, so that its visitor is told so in words."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""Gradio builds itself with inline scripts; what matters is that none comes from, and nothing goes to, elsewhere."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class TooLarge(Exception):
    """A request with more than the page takes."""


class Guard:
    """ASGI middleware: refuses large requests before they are in memory, and tells the browser to stay on this page."""

    def __init__(self, app: Any, most_bytes: int) -> None:
        self.app = app
        self.most_bytes = most_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read, answered = 0, False

        async def receive_counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most_bytes:
                raise TooLarge
            return message

        async def send_guarded(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [
                    *message.get("headers", []),
                    (b"content-security-policy", POLICY.encode()),
                    (b"referrer-policy", b"no-referrer"),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        said = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if said.isdigit() and int(said) > self.most_bytes:
                raise TooLarge
            await self.app(scope, receive_counted, send_guarded)
        except TooLarge:
            if not answered:
                await send_guarded({"type": "http.response.start", "status": 413, "headers": []})
                await send_guarded({"type": "http.response.body", "body": b"too large\n"})


def serve(explorer: Explorer, paper: tuple[PaperClaims, dict[str, str]] | None, port: int | None, wait: bool) -> Any:
    """Gradio's page object, served; with ``wait`` until somebody ends it."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
    import gradio as gr
    from starlette.middleware import Middleware

    from keepset.explore.page import build_page

    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    page = build_page(explorer, paper)
    page.launch(
        server_name=HOST,
        server_port=free_port(port),
        share=False,
        quiet=True,
        prevent_thread_lock=not wait,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        max_file_size=MOST_BYTES,
        state_session_capacity=explorer.limits.visitors,
        app_kwargs={"middleware": [Middleware(Guard, most_bytes=MOST_BYTES)]},
        theme=gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        head=f"<style>{COLOURS} .keepset {{ {STYLE} }} {style}</style>",
    )
    return page


def explore(model: str, port: int | None, results: Path | None, device: str, tell: Callable[[str], None]) -> None:
    """The command: loads the model, serves the page, and returns when it is stopped."""
    if find_spec("gradio") is None:
        raise ValueError("explore: expected gradio, got none; install it with: pip install 'keepset[explore]'")
    port = free_port(port)  # what can be wrong, before the model is loaded
    paper = read_claims(results or REPOSITORY_RESULTS)
    if results and paper is None:
        raise ValueError(
            f"results: expected a folder with claims.json, as 'keepset report' writes into docs/results, got {results}"
        )
    loaded, tokenizer = load_model(model, device=device)
    explorer = Explorer(loaded, tokenizer, Path(model).name, shipped_compressor())
    tell(f"keepset explore is at http://{HOST}:{port} (Ctrl-C ends it)")
    serve(explorer, paper, port, wait=True)


def shipped_compressor() -> Compressor | None:
    """Only where its reader is here already: a page does not download."""
    compressor = Compressor()
    name = compressor.router.reads.name
    return compressor if name in BUNDLED and fetched(name) else None


def free_port(wanted: int | None) -> int:
    """``wanted``, or the first free one; raises ValueError where it is taken."""
    for port in PORTS if wanted is None else (wanted,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    taken = f"{wanted}" if wanted is not None else f"{PORTS[0]} to {PORTS[-1]}, all taken"
    raise ValueError(f"port: expected a free one on {HOST}, got {taken}; choose another with --port")
