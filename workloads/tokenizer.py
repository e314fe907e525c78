"""A tokenizer file, with the tokens that begin and end a training sequence.

Begin, unless named: what the tokenizer itself puts before a text; if nothing, the bos_token of the file
tokenizer_config.json beside it where that says add_bos_token. End, unless named: eos_token of tokenizer_config.json,
else eos_token_id of config.json, both beside it; else what the tokenizer itself puts behind a text; else the one usual
end token it knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobra.errors import BadInput
from lobra.json_file import read_object

USUAL_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>")


@dataclass(frozen=True, slots=True, eq=False)
class TextTokenizer:
    """Text to ids."""

    tool: Any
    begin: tuple[int, ...]
    end: int
    vocabulary: int  # every id lies below

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text alone, nothing put before or behind it."""
        return [one.ids for one in self.tool.encode_batch(list(texts), add_special_tokens=False)]

    def name(self, token: int) -> str:
        """The token as the tokenizer file spells it."""
        return str(self.tool.id_to_token(token))


def open_tokenizer(path: Path, owner: str, begin: str | None = None, end: str | None = None) -> TextTokenizer:
    """The tokenizer in a tokenizer.json; begin and end name tokens, an empty begin means none.

    BadInput where it cannot be read, lacks a named token, or its end token is not clear.
    """
    tool = load_tokenizer(path, owner)
    vocabulary: dict[str, int] = tool.get_vocab(with_added_tokens=True)
    before, behind = around(tool)
    if begin is None:
        front = before or _configured_begin(path.parent, vocabulary, owner)
    else:
        front = (_known(begin, "begin", vocabulary, owner),) if begin else ()
    last = _end(path.parent, vocabulary, behind, owner) if end is None else _known(end, "end", vocabulary, owner)
    return TextTokenizer(tool, front, last, max(vocabulary.values()) + 1)


def load_tokenizer(path: Path, owner: str) -> Any:
    """The tokenizer in a tokenizer.json, without padding and truncation; BadInput where it cannot be read."""
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415  # an extra: whoever gives no text does not need it
    except ImportError:
        raise BadInput(f"{owner}: text needs the package 'tokenizers'; install lobra[text], or give lengths") from None
    try:
        tool = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{owner}: {path} cannot be read ({error.strerror}); give a tokenizer.json") from None
    except Exception as error:  # noqa: BLE001  # the package raises bare Exception for a broken file
        raise BadInput(f"{owner}: {path} is no tokenizer file ({str(error)[:80]})") from None
    tool.no_padding()  # a file may ask for either; both would falsify sequences
    tool.no_truncation()
    return tool


def around(tool: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens that the tokenizer itself puts before and behind a text."""
    bare = tool.encode("a", add_special_tokens=False).ids
    full = tool.encode("a", add_special_tokens=True).ids
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return tuple(full[:start]), tuple(full[start + len(bare) :])
    return (), ()


def _configured_begin(folder: Path, vocabulary: dict[str, int], owner: str) -> tuple[int, ...]:
    config = _beside(folder / "tokenizer_config.json", owner)
    name = _content(config.get("bos_token"))
    if config.get("add_bos_token") is not True or name is None:
        return ()
    return (_known(name, "bos_token of tokenizer_config.json", vocabulary, owner),)


def _end(folder: Path, vocabulary: dict[str, int], behind: tuple[int, ...], owner: str) -> int:
    name = _content(_beside(folder / "tokenizer_config.json", owner).get("eos_token"))
    if name is not None:
        return _known(name, "eos_token of tokenizer_config.json", vocabulary, owner)
    number = _beside(folder / "config.json", owner).get("eos_token_id")
    if type(number) is int and number in vocabulary.values():
        return number
    if len(behind) == 1:
        return behind[0]
    usual = [token for token in USUAL_ENDS if token in vocabulary]
    if len(usual) != 1:
        found = f"it knows {', '.join(usual)}" if usual else "it knows none of the usual ones"
        raise BadInput(f"{owner}: the tokenizer does not say which token ends a sequence ({found}); name it as `end`")
    return vocabulary[usual[0]]


def _known(token: str, role: str, vocabulary: dict[str, int], owner: str) -> int:
    if token not in vocabulary:
        raise BadInput(f"{owner}: {role} is {token!r}, which is no token of the tokenizer; name one that is")
    return vocabulary[token]


def _beside(file: Path, owner: str) -> dict[str, Any]:
    """The object in a file that need not be there."""
    if not file.is_file():
        return {}
    try:
        return read_object(file)
    except BadInput as error:
        raise BadInput(f"{owner}: {error}; mend the file, or move it away and name `begin` and `end`") from None


def _content(token: Any) -> str | None:
    """A special token as configurations write it: its text, or an object around it."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None
