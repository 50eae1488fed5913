import subprocess
import sys
from signal import SIGCONT, SIGSTOP

import pytest

from tests.chaos.gate import BE_GOOD, BE_SLOW, REFUSE_WORKERS
from tests.processes import ROOT

pytestmark = pytest.mark.slow

# Says what a gate is like once it has handled two signals.
GATE = """
import asyncio, os
from tests.chaos.gate import Gate

class Watched(Gate):
    changes = 0
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in ("delay", "refuses_workers"):
            self.changes += 1

async def main():
    gate = Watched(["127.0.0.1:9"], patience=None)
    serving = asyncio.create_task(gate.serve("127.0.0.1", 0))
    await asyncio.sleep(0.1)
    before = gate.changes
    print("ready", flush=True)
    while gate.changes < before + 3:  # one, and the two of be_good
        await asyncio.sleep(0.01)
    print(gate.delay, gate.refuses_workers, flush=True)
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("fault", [BE_SLOW, REFUSE_WORKERS])
def test_a_gate_that_is_frozen_while_it_is_mended_is_good_afterwards(fault):
    command = [sys.executable, "-c", GATE]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for number in (SIGSTOP, fault, BE_GOOD, SIGCONT):
            process.send_signal(number)
        assert process.stdout.readline() == "0.0 False\n"
