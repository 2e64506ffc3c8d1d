"""Turns: the GPU is kept while nobody wants it, given back when somebody does or when the script
computes elsewhere, and a broker that is away, silent, stopped or mad stops no script."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import synergy
from synergy.turn import ANSWER_WITHIN, Client, OutOfGPUMemory

turns = sys.modules["synergy.turn"]  # synergy.turn is the function


class Broker:
    """Grants in the order in which it is asked, and wants the GPU back as soon as somebody waits.

    lease   seconds of each grant;  refuse: the code that answers each HELLO
    silent  reads and says nothing;  deaf: says WELCOME and grants nothing
    """

    def __init__(self, path, lease=60.0, refuse=None, silent=False, deaf=False):
        self.lease, self.refuse, self.silent, self.deaf = lease, refuse, silent, deaf
        self.said, self.wrong, self.used = [], [], 0
        self.queue, self.seqs, self.peers = [], {}, []  # the first of the queue holds the GPU
        self.lock = threading.RLock()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.peers.append(peer)
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            for line in peer.makefile("rb"):
                with self.lock:
                    self.hear(peer, json.loads(line))
        except (OSError, ValueError):
            pass
        with self.lock:
            self.remove(peer)
        peer.close()

    def hear(self, peer, m):
        self.said.append(m)
        kind = m["type"]
        if m["v"] != 1 or len(json.dumps(m)) > 4000:
            self.wrong.append(m)
        if self.silent:
            return
        if kind == "HELLO" and self.refuse:
            self.say(peer, type="ERR", code=self.refuse, msg="it is refused")
        elif kind == "HELLO":
            self.say(peer, type="WELCOME", gpu=0, **{"class": "low"})
        elif kind == "ACQ" and not self.deaf:
            if peer in self.queue:
                self.wrong.append("a second request while one is open")
            self.seqs[peer] = m["seq"]
            self.queue.append(peer)
            self.grant() if len(self.queue) == 1 else self.want()
        elif kind == "REL":
            if self.queue[:1] != [peer] or self.seqs[peer] != m["seq"]:
                self.wrong.append("a release without a grant")
            self.used += m["used_us"] / 1e6
            self.remove(peer)

    def grant(self):
        peer = self.queue[0]
        self.say(peer, type="GRANT", seq=self.seqs[peer], lease_us=int(self.lease * 1e6))
        if len(self.queue) > 1:
            self.want()

    def want(self):
        with self.lock:
            if self.queue:
                self.say(self.queue[0], type="YIELD", seq=self.seqs[self.queue[0]], grace_us=10**5)

    def remove(self, peer):
        if peer in self.queue:
            first = self.queue[0] is peer
            self.queue.remove(peer)
            if first and self.queue:
                self.grant()

    def say(self, peer, **m):
        try:
            peer.sendall(json.dumps({"v": 1, **m}).encode() + b"\n")
        except OSError:
            pass

    def count(self, kind):
        with self.lock:
            return sum(m["type"] == kind for m in self.said)

    def held(self):
        with self.lock:
            return bool(self.queue)

    def stop(self):
        with self.lock:
            if self.listener.fileno() < 0:
                return
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            for peer in self.peers:
                try:
                    peer.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Turns(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.path = os.path.join(self.folder, "turn-0.sock")

    def broker(self, **how):
        broker = Broker(self.path, **how)
        self.addCleanup(lambda: self.assertEqual(broker.wrong, []))
        self.addCleanup(broker.stop)
        return broker

    def client(self, **how):
        client = Client(self.path, **how)
        self.addCleanup(client.close)
        return client

    def step(self, client, takes=0.0, estimate=0.0):
        client.begin(estimate)
        time.sleep(takes)
        client.end()

    def until(self, what, holds, limit=10.0):
        end = time.monotonic() + limit
        while not holds():
            self.assertLess(time.monotonic(), end, f"not within {limit} s: {what}")
            time.sleep(0.001)


class WithABroker(Turns):
    def test_a_grant_is_good_for_many_steps_while_nobody_wants_the_gpu(self):
        broker, client = self.broker(), self.client()
        for _ in range(100):
            self.step(client)
        self.assertEqual((client.steps, client.unmanaged), (100, 0))
        self.assertLess(broker.count("ACQ"), 20)

    def test_the_gpu_is_given_back_when_the_script_computes_elsewhere(self):
        broker, client = self.broker(), self.client()
        self.step(client, 0.005)
        self.until("the GPU is given back", lambda: not broker.held())
        self.assertTrue(0.005 <= broker.used < 1, broker.used)
        self.step(client)
        self.assertEqual(broker.count("ACQ"), 2)

    def test_the_gpu_is_given_back_at_the_end_of_the_step_in_which_it_is_wanted(self):
        broker, client = self.broker(), self.client()
        client.begin()
        broker.want()
        time.sleep(0.05)
        self.assertEqual(broker.count("REL"), 0)
        client.end()
        self.until("the GPU is given back", lambda: broker.count("REL") == 1, 0.5)

    def test_a_step_that_begins_after_the_lease_is_asked_for_anew(self):
        broker, client = self.broker(lease=0.025), self.client()
        for _ in range(3):
            self.step(client, 0.015, 0.015)
        self.assertEqual(broker.count("ACQ"), 2)
        asked = [m["est_us"] for m in broker.said if m["type"] == "ACQ"]
        self.assertEqual(asked, [15000, 15000])

    def test_an_estimate_that_is_not_given_is_learned(self):
        broker, client = self.broker(lease=0), self.client()
        for _ in range(3):
            self.step(client, 0.01)
        asked = [m["est_us"] for m in broker.said if m["type"] == "ACQ"]
        self.assertTrue(asked[0] == 0 and asked[-1] >= 10000, asked)

    def test_two_scripts_never_use_the_gpu_at_once(self):
        self.broker()
        users, most, failed = [], [], []

        def train(client):
            for _ in range(50):
                client.begin()
                users.append(client)
                most.append(len(users))
                time.sleep(0.0002)
                users.pop()
                client.end()
            failed.extend([] if client.unmanaged == 0 else [client])

        threads = [threading.Thread(target=train, args=(self.client(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual((max(most), len(most), failed), (1, 100, []))

    def test_threads_of_one_script_take_turns_and_a_turn_within_a_turn_is_part_of_it(self):
        self.broker()
        client, users, most = self.client(), [], []

        def train():
            for _ in range(20):
                with turns._Turn(client, 0), turns._Turn(client, 0):
                    users.append(1)
                    most.append(len(users))
                    users.pop()

        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual((max(most), len(most), client.steps), (1, 80, 80))

    def test_a_step_that_fails_leaves_nothing_held(self):
        broker, client = self.broker(), self.client()
        with self.assertRaises(ZeroDivisionError), turns._Turn(client, 0):
            raise ZeroDivisionError
        self.until("the GPU is given back", lambda: not broker.held())

    def test_who_is_interrupted_while_it_waits_does_not_get_the_gpu_later(self):
        broker, client = self.broker(), self.client()
        other = self.client()
        other.begin()

        def handler(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with self.assertRaises(KeyboardInterrupt):
            client.begin()
        other.end()
        self.until("nobody holds the GPU", lambda: not broker.held())
        self.step(client)  # and the turn is free


class WithoutABroker(Turns):
    def test_a_script_runs_on_and_is_managed_when_a_broker_comes(self):
        client = self.client()
        with self.assertLogs("synergy") as said:
            for _ in range(100):
                self.step(client)
        self.assertEqual(len(said.output), 1)
        self.assertEqual(client.unmanaged, 100)
        broker = self.broker()

        def managed():
            self.step(client)
            return broker.count("REL") > 0 or broker.held()

        self.until("a step is asked for", managed)

    def test_who_waits_for_a_broker_that_dies_runs_on(self):
        broker, client = self.broker(deaf=True), self.client()
        threading.Timer(0.2, broker.stop).start()
        with self.assertLogs("synergy"):
            self.step(client)
        self.assertEqual(client.unmanaged, 1)

    def test_a_broker_that_says_nothing_costs_a_second_once(self):
        self.broker(silent=True)
        client = self.client()
        began = time.monotonic()
        with self.assertLogs("synergy"):
            for _ in range(100):
                self.step(client)
        self.assertLess(time.monotonic() - began, 4 * ANSWER_WITHIN)
        self.assertEqual(client.unmanaged, 100)

    def test_a_broker_that_is_stopped_is_let_go(self):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(self.path)
        listener.listen()

        def first():
            peer, _ = listener.accept()
            peer.recv(4096)
            peer.sendall(b'{"v":1,"type":"WELCOME"}\n')
            peer.recv(4096)
            time.sleep(5)

        threading.Thread(target=first, daemon=True).start()
        with mock.patch.object(turns, "LIFE_EVERY", 0.1), mock.patch.object(
            turns, "ANSWER_WITHIN", 0.3
        ), self.assertLogs("synergy"):
            client = self.client()
            self.step(client)
        self.assertEqual(client.unmanaged, 1)

    def test_a_broker_that_lives_is_waited_for(self):
        broker = self.broker(deaf=True)
        client = self.client()
        with mock.patch.object(turns, "LIFE_EVERY", 0.05):
            threading.Timer(0.5, broker.stop).start()
            began = time.monotonic()
            with self.assertLogs("synergy"):
                self.step(client)
        self.assertGreater(time.monotonic() - began, 0.4)
        self.assertGreater(broker.count("HELLO"), 2)

    def test_only_too_much_memory_ends_a_script(self):
        broker = self.broker(refuse="mem-cap")
        with self.assertRaises(OutOfGPUMemory), self.assertLogs("synergy"):
            self.client(memory=90000).begin()
        self.assertEqual(broker.said[0]["mem_mib"], 90000)
        broker.refuse = "not-sharing"
        client = self.client()
        with self.assertLogs("synergy"):
            self.step(client)
        self.assertEqual(client.unmanaged, 1)

    def test_no_line_of_a_broker_stops_a_script(self):
        chance = random.Random(1)
        lines = [
            b"[]", b"7", b"null", b"{", b"\xff\xfe", b"[" * 5000, b"x" * 9000, b'{"type":7}',
            b'{"type":"GRANT","seq":1,"lease_us":1e999}',
            b'{"type":"GRANT","seq":1,"lease_us":null}',
            b'{"type":"YIELD","seq":1}', b'{"type":"WELCOME"}', b'{"type":"ERR","code":[]}',
        ]  # fmt: skip
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(self.path)
        listener.listen()

        def serve():
            while True:
                try:
                    peer, _ = listener.accept()
                    for _ in range(3):
                        peer.sendall(chance.choice(lines) + b"\n")
                    peer.close()
                except OSError:
                    continue

        threading.Thread(target=serve, daemon=True).start()
        with mock.patch.object(turns, "FIRST_RETRY", 0.0), mock.patch.object(
            turns, "LONGEST_RETRY", 0.0
        ), mock.patch.object(turns, "ANSWER_WITHIN", 0.2), self.assertLogs("synergy"):
            client = self.client()
            for _ in range(300):
                self.step(client)
        self.assertEqual(client.steps, 300)


class TheFunction(Turns):
    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, turns, "_client", None)
        turns._client = None

    def test_without_a_shared_gpu_it_does_nothing(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("SYNERGY_TURN_SOCK", None)
            with synergy.turn():
                pass
        self.assertIsNone(turns._client)

    def test_it_asks_at_the_socket_of_the_environment(self):
        broker = self.broker()
        with mock.patch.dict(os.environ, SYNERGY_TURN_SOCK=self.path):
            with synergy.turn(estimate=0.02, memory=2000):
                self.assertTrue(broker.held())
        self.addCleanup(turns._client.close)
        self.assertEqual(broker.said[1]["est_us"], 20000)

    def test_a_child_does_not_keep_a_dead_scripts_turn(self):
        broker = self.broker()
        script = (
            "import os, sys, time, synergy\n"
            "with synergy.turn():\n"
            "    if os.fork() == 0:\n"
            "        print('child', flush=True); time.sleep(30); os._exit(0)\n"
            "    time.sleep(30)\n"
        )
        path = os.pathsep.join(sys.path)
        env = {**os.environ, "SYNERGY_TURN_SOCK": self.path, "PYTHONPATH": path}
        child = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE,
                                 start_new_session=True)  # fmt: skip
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(os.killpg, child.pid, signal.SIGKILL)
        self.assertEqual(child.stdout.readline(), b"child\n")
        self.assertTrue(broker.held())
        child.kill()
        self.until("the dead script's turn is over", lambda: not broker.held())


class WithTorch(Turns):
    """The calls of torch that are made, in their order; what they do on a GPU is torch's."""

    def setUp(self):
        super().setUp()
        self.calls = calls = []

        class Event:
            made = 0

            def __init__(self):
                Event.made += 1
                self.number = Event.made

            def record(self):
                calls.append(f"record {self.number}")

            def synchronize(self):
                calls.append(f"wait for {self.number}")

        cuda = types.SimpleNamespace(
            Event=Event, is_initialized=lambda: True, current_device=lambda: 3,
            synchronize=lambda device: calls.append(f"drain {device}"),
        )  # fmt: skip
        patched = mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda))
        patched.start()
        self.addCleanup(patched.stop)

    def test_the_gpu_is_drained_before_another_has_it(self):
        broker, client = self.broker(), self.client()
        client.begin()
        broker.want()
        self.until("the word is there", lambda: select_ready(client))
        client.end()
        self.assertEqual(self.calls, ["record 1", "drain 3"])
        self.assertEqual(broker_order(broker), ["HELLO", "ACQ", "REL"])

    def test_the_gpu_is_drained_before_it_is_given_back_unasked(self):
        broker, client = self.broker(), self.client()
        self.step(client)
        self.until("the GPU is given back", lambda: not broker.held())
        self.assertEqual(self.calls, ["record 1", "drain 3"])

    def test_a_script_that_keeps_the_gpu_is_at_most_a_step_ahead_of_it(self):
        self.broker()
        client = self.client()
        with mock.patch.object(turns, "IDLE", 30.0):
            for _ in range(3):
                self.step(client)
        self.assertEqual(
            self.calls, ["record 1", "wait for 1", "record 2", "wait for 2", "record 3"]
        )

    def test_the_step_that_the_gpu_is_behind_counts_in_the_lease(self):
        broker, client = self.broker(lease=0.5), self.client()
        with mock.patch.object(turns, "IDLE", 30.0):
            self.step(client, 0.0, 0.6)
            self.step(client, 0.0, 0.6)  # the first is still to be done, and ends after the lease
        self.assertEqual(broker.count("ACQ"), 2)


def select_ready(client):
    return bool(turns.select.select([client._sock], [], [], 0)[0])


def broker_order(broker):
    end = time.monotonic() + 5
    while broker.count("REL") == 0 and time.monotonic() < end:
        time.sleep(0.001)
    return [m["type"] for m in broker.said]


if __name__ == "__main__":
    unittest.main()
