"""Questions and answers in the terminal. A fault ends a setup without input, else asks again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class CannotGoOn(Exception):
    """Something is missing or wrong, and there is no terminal to ask in."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    value: str
    words: str


@dataclass(kw_only=True)
class Console:
    """`ask` and `ask_secretly` are input() and getpass(); None: nothing is asked."""

    say: Callable[[str], None]
    ask: Callable[[str], str] | None
    ask_secretly: Callable[[str], str]

    def text(self, prompt: str, *, name: str, secret: bool = False) -> str:
        """`name`: the variable to set instead."""
        if self.ask is None:
            raise CannotGoOn(f"{name} is missing. Set it in the environment or in .env.")
        reader = self.ask_secretly if secret else self.ask
        try:
            return reader(f"{prompt}: ").strip()
        except EOFError:
            raise CannotGoOn("There is no terminal to ask in: use --no-input.") from None

    def choose(self, prompt: str, choices: Sequence[Choice], *, name: str) -> str:
        """One of them, by its number."""
        (chosen,) = self._chosen(prompt, choices, name=name, several=False)
        return chosen

    def choose_some(self, prompt: str, choices: Sequence[Choice], *, name: str) -> list[str]:
        """One or more of them, by their numbers; `all` for all."""
        return self._chosen(f"{prompt}, such as 1,2 or all", choices, name=name, several=True)

    def _chosen(
        self, prompt: str, choices: Sequence[Choice], *, name: str, several: bool
    ) -> list[str]:
        for number, choice in enumerate(choices, start=1):
            self.say(f"  {number}  {choice.words}")
        while True:
            answer = self.text(prompt, name=name)
            numbers = _numbers(answer, count=len(choices), several=several)
            if numbers:
                return [choices[number - 1].value for number in numbers]
            self.fault(f"{answer!r} is not a number from 1 to {len(choices)}")

    def ok(self, words: str) -> None:
        self.say(f"ok     {words}")

    def fault(self, words: str) -> None:
        """Say what is wrong; without a terminal, end here."""
        if self.ask is None:
            raise CannotGoOn(words)
        self.say(f"FAULT  {words}")


def _numbers(answer: str, *, count: int, several: bool) -> list[int]:
    if several and answer.lower() == "all":
        return list(range(1, count + 1))
    words = [word.strip() for word in answer.split(",")] if several else [answer]
    if not all(word.isdecimal() and 1 <= int(word) <= count for word in words):
        return []
    return list(dict.fromkeys(int(word) for word in words))
