import shutil

import pytest

from tests.chaos.mutations import MUTATIONS, apply, failures, trial
from tests.processes import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.safeguard)
def test_each_safeguard_is_in_the_source(mutation, tmp_path):
    for edit in mutation.edits:
        (tmp_path / edit.file).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / edit.file).exists():
            shutil.copy(ROOT / edit.file, tmp_path / edit.file)
        apply(edit, tmp_path)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.safeguard)
def test_each_scenario_exists(mutation):
    for scenario in mutation.scenarios:
        file, _, name = scenario.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text() or not name


@pytest.mark.slow
def test_a_missing_epoch_check_is_noticed():
    [mutation] = [each for each in MUTATIONS if each.safeguard == "epoch check of a slot's moves"]
    code, output = trial(mutation.edits, mutation.scenarios)
    assert code == 1, output
    assert failures(output) == [mutation.scenarios[0].split("::")[1]]
