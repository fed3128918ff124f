"""Real signals to this process, at the places where they differ."""

import os
import signal
import threading

import pytest

from agents.interruption import Interrupted, Interrupts

NUMBERS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def send(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)  # handled before this returns


@pytest.mark.parametrize(("number", "status"), NUMBERS.items())
def test_outside_any_work_a_signal_raises_at_once(number: int, status: int) -> None:
    with Interrupts() as interrupts, pytest.raises(Interrupted) as caught:
        send(number)
    assert (caught.value.status, interrupts.whole) == (status, True)


@pytest.mark.parametrize(("number", "status"), NUMBERS.items())
def test_work_is_finished_first(number: int, status: int, capfd: pytest.CaptureFixture) -> None:
    done = []
    with Interrupts() as interrupts, pytest.raises(Interrupted) as caught, interrupts.held():
        send(number)
        done.append(interrupts.whole)
    assert (done, caught.value.status, interrupts.whole) == ([False], status, True)
    assert capfd.readouterr().err == "\ntrain.py: finishing this step; once more to stop at once\n"


def test_the_second_signal_tears_the_work() -> None:
    done = []
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.held():
        send()
        done.append(1)
        send(signal.SIGTERM)
        done.append(2)
    assert (done, interrupts.whole) == ([1], False)


def test_play_is_abandoned_and_nothing_is_torn() -> None:
    done = []
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.held():
        with interrupts.at_once():
            done.append(interrupts.whole)
            send()
            done.append("not reached")
        done.append("not reached")
    assert (done, interrupts.whole) == ([True], True)


def test_what_was_held_back_ends_the_next_play_before_it_begins() -> None:
    done = []
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.held():
        send()
        with interrupts.at_once():
            done.append("not reached")
    assert (done, interrupts.whole) == ([], True)


def test_an_error_in_the_work_leaves_it_torn_and_one_in_play_does_not() -> None:
    for place, whole in (("work", False), ("play", True)):
        interrupts = Interrupts()
        with pytest.raises(ValueError), interrupts.held():
            with interrupts.at_once():
                if place == "play":
                    raise ValueError
            raise ValueError
        assert interrupts.whole is whole


def test_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with Interrupts():
        assert [signal.getsignal(number) for number in NUMBERS] != before
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_in_another_thread_it_keeps_out_of_the_way() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with Interrupts() as interrupts, interrupts.held():
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []
