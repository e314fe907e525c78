"""All answers as one HTML file: style, scripts and data inside, nothing loaded from anywhere.

The page forbids itself the network, and every script but the two that it was written with: a Content-Security-Policy
names their hashes.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from plotly.offline import get_plotlyjs

from experiments.report.section import VERDICTS, section
from experiments.report.text import embedded, safe
from experiments.whatif.answer import Answer

SCHEMA = 1  # of the embedded data
TITLE = "LobRA capacity report"
HOW = (
    "Each section answers one question: the answer first, then figures, charts, tables and what they rest on. "
    "An interval holds the true value in so many of a hundred cases as it says; n is the number of plays behind it. "
    "A dash stands where nothing is known."
)


def page(answers: Sequence[Answer]) -> str:
    """The file; equal answers give equal bytes."""
    sections: list[str] = []
    charts: dict[str, Any] = {}
    for number, answer in enumerate(answers, 1):
        text, data = section(number, answer)
        sections.append(text)
        charts |= data
    library, ours = _script(get_plotlyjs()), _script(_beside("draw.js"))
    data = {"schema": SCHEMA, "kind": "report", "answers": [answer.as_dict() for answer in answers]}
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(library, ours)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{safe(_title(answers))}</title>",
            f"<style>\n{_beside('look.css')}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#answers">Skip to the answers</a>',
            _head(answers),
            '<main id="answers" tabindex="-1">',
            *sections,
            "</main>",
            "<footer><p>Made by <code>lobra report</code>. Charts: plotly.js, MIT licence.</p></footer>",
            f'<script type="application/json" id="data">{embedded(data)}</script>',
            f'<script type="application/json" id="charts">{embedded(charts)}</script>',
            f"<script>{library}</script>",
            f"<script>{ours}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _title(answers: Sequence[Answer]) -> str:
    return f"{TITLE}: {', '.join(dict.fromkeys(answer.question for answer in answers))}"


def _head(answers: Sequence[Answer]) -> str:
    links = "".join(
        f'<li><a href="#q{number}"><b>{safe(answer.question)}</b> {safe(answer.asks)}</a> '
        f'<span class="badge {VERDICTS[answer.verdict][0]}">{" ".join(VERDICTS[answer.verdict][1:])}</span></li>'
        for number, answer in enumerate(answers, 1)
    )
    return (
        f'<header><h1>{TITLE}</h1>\n<p class="how">{safe(HOW)}</p>\n'
        f'<nav aria-label="Questions"><ol>{links}</ol></nav>\n'
        '<p><button type="button" id="save" hidden>Download all data (JSON)</button></p></header>'
    )


def _beside(name: str) -> str:
    return resources.files("experiments.report").joinpath(name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    """A script that its element can hold."""
    text = text.replace("\r", "")
    return text.replace("</script", "<\\/script")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
