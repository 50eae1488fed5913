"""The values that setup has so far: those of the environment first, then those of the file."""

from collections.abc import Callable, Mapping, Sequence

from botpool.setup.console import Choice, Console
from botpool.setup.env_file import CannotBeWritten, EnvFile, quoted


class Answers:
    """`need…` keeps a value that passes its test, and asks for one that is missing or does not."""

    def __init__(self, file: EnvFile, environment: Mapping[str, str], console: Console) -> None:
        self._known = {**file.values, **{name: v for name, v in environment.items() if v.strip()}}
        self.console = console
        self.given: dict[str, str] = {}  # what belongs in the file

    def __getitem__(self, name: str) -> str:
        return self.given[name]

    def has(self, name: str) -> bool:
        return name in self._known or name in self.given

    def give(self, name: str, value: str) -> None:
        self.given[name] = value

    def hidden_by(self, environment: Mapping[str, str]) -> list[str]:
        """The answers that have no effect, because the environment says otherwise."""
        return [name for name, value in self.given.items() if environment.get(name, value) != value]

    def keep(self, name: str) -> bool:
        """Take over a value that is known already; False if it is not."""
        if name in self._known:
            self.given[name] = self._known[name].strip()
        return name in self.given

    def need(
        self,
        name: str,
        question: str,
        *,
        fault: Callable[[str], str],
        clean: Callable[[str], str] = str.strip,
        secret: bool = False,
        optional: bool = False,
    ) -> str:
        """`fault` says what is wrong with a value, or nothing. Optional: an empty answer is one."""
        known = self._known.get(name, "")
        while True:
            value = clean(known or self.console.text(question, name=name, secret=secret))
            known = ""
            if optional and not value:
                return ""
            wrong = "it is empty" if not value else _fault_of_writing(value) or fault(value)
            if not wrong:
                break
            self.console.fault(wrong if name in wrong else f"{name}: {wrong}")
        self.console.ok(f"{name} is set" if secret else f"{name}={value}")
        self.given[name] = value
        return value

    def need_one(self, name: str, question: str, choices: Sequence[Choice]) -> None:
        known = self._known.get(name, "").strip()
        if not known and len(choices) == 1:
            known = choices[0].value
        if known and not self._is_among([known], choices, name=name):
            known = ""
        value = known or self.console.choose(question, choices, name=name)
        self.given[name] = value
        self.console.ok(f"{name}={value}")

    def need_some(self, name: str, question: str, choices: Sequence[Choice]) -> None:
        known = [each.strip() for each in self._known.get(name, "").split(",") if each.strip()]
        if not known and len(choices) == 1:
            known = [choices[0].value]
        if known and not self._is_among(known, choices, name=name):
            known = []
        values = known or self.console.choose_some(question, choices, name=name)
        self.given[name] = ",".join(values)
        self.console.ok(f"{name}={self.given[name]}")

    def _is_among(self, values: Sequence[str], choices: Sequence[Choice], *, name: str) -> bool:
        unknown = set(values) - {each.value for each in choices}
        if unknown:
            listed = ", ".join(each.value for each in choices) or "none"
            words = ", ".join(sorted(unknown))
            self.console.fault(f"{name}: Coolify does not know {words}. It knows: {listed}.")
        return not unknown


def _fault_of_writing(value: str) -> str:
    try:
        quoted(value)
    except CannotBeWritten as error:
        return str(error)
    return ""
