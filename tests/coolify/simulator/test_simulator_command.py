import argparse

import pytest
from django.core.management import CommandError, load_command_class

from coolify.management.commands.coolify_simulator import latency, settings_from
from coolify.simulator.settings import server_uuids


def settings(*words):
    parser = load_command_class("coolify", "coolify_simulator").create_parser("manage.py", "x")
    return settings_from(vars(parser.parse_args(list(words))))


def test_the_number_of_servers_and_the_latency_are_options():
    chosen = settings("--servers", "3", "--latency", "0.05-0.5")
    assert chosen.servers == server_uuids(3)
    assert (chosen.shortest_call, chosen.longest_call) == (0.05, 0.5)


def test_a_latency_may_be_one_number():
    assert latency("0.2") == (0.2, 0.2)


@pytest.mark.parametrize("text", ["fast", "2-1", "-1", "1-x"])
def test_a_wrong_latency_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"0\.05-0\.5"):
        latency(text)


@pytest.mark.parametrize("text", ["0", "101", "two"])
def test_a_wrong_number_of_servers_is_refused(text):
    with pytest.raises(CommandError, match="from 1 to 100"):
        settings("--servers", text)
