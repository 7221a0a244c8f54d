"""Addresses, join strings, and the commands that start and stop hosts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import raymesh as ray
from compat_tests.cluster.steps import raymesh
from compat_tests.harness.discover import ROOT
from raymesh import _address, _machine
from raymesh._launch import launch

Start = Callable[..., Any]


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_the_commands_start_join_show_and_end_a_cluster(own_folder: Path) -> None:
    try:
        head = raymesh("start", "--head", "--num-cpus", "1", "--node-name", "first")
        assert head.returncode == 0, head.stderr
        [record] = _address.running()
        assert f"raymesh start --address {record.join}" in head.stdout
        joined = raymesh(
            "start", "--address", record.join, "--num-cpus", "1", "--node-name", "second"
        )
        assert "has joined" in joined.stdout, joined.stderr
        shown = raymesh("status").stdout
        assert all(word in shown for word in ("first", "second", "alive")), shown
        ray.init(address="auto", log_to_driver=False)
        assert ray.cluster_resources()["CPU"] == 2
        ray.shutdown()
    finally:
        ended = raymesh("stop")
    assert ended.stdout.index("Ended the host") < ended.stdout.index("Ended the head")
    assert _address.running() == []
    assert "No host runs." in raymesh("stop").stdout


def test_a_program_that_names_no_cluster_joins_the_one_that_was_started_here(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def cpus(**options: Any) -> float:
        ray.init(log_to_driver=False, **options)
        try:
            return ray.cluster_resources()["CPU"]
        finally:
            ray.shutdown()

    try:
        assert raymesh("start", "--head", "--num-cpus", "7").returncode == 0
        assert cpus() == 7
        assert cpus(address="local", num_cpus=2) == 2
        with pytest.raises(ValueError, match="num_cpus must not be provided"):
            cpus(num_cpus=2)
        # A folder that others may write to is not believed.
        (own_folder / "raymesh").chmod(0o777)
        assert cpus(num_cpus=2) == 2
        (own_folder / "raymesh").chmod(0o700)
    finally:
        raymesh("stop")
    assert cpus(num_cpus=2) == 2


def test_a_cluster_of_a_test_is_joined_by_nobody_who_does_not_name_it(
    cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cluster({"num_cpus": 7}, connect=False)
    ray.init(num_cpus=2, log_to_driver=False)
    assert ray.cluster_resources()["CPU"] == 2


def test_what_a_host_is_may_stand_in_a_file(own_folder: Path) -> None:
    file = own_folder / "host.toml"
    file.write_text(
        'num-cpus = 3\nnode-name = "of a file"\nresources = { disk = 2 }\n[labels]\nzone = "a"\n'
    )
    try:
        started = raymesh("start", "--head", "--config", str(file), "--num-cpus", "5")
        assert started.returncode == 0, started.stderr
        ray.init(log_to_driver=False)
        (node,) = ray.nodes()
        assert (node["Resources"]["CPU"], node["Resources"]["disk"]) == (5, 2)
        assert (node["Labels"]["zone"], node["NodeName"]) == ("a", "of a file")
        ray.shutdown()
    finally:
        raymesh("stop")
    file.write_text("cpus = 3\n")
    refused = raymesh("start", "--head", "--config", str(file))
    assert refused.returncode != 0
    assert "'cpus', which is no option of this command" in refused.stderr
    file.write_text("no toml")
    assert "is no TOML" in raymesh("start", "--head", "--config", str(file)).stderr


def test_links_without_tls_are_for_one_machine(own_folder: Path, cluster: Start) -> None:
    wide = raymesh("start", "--head", "--no-tls", "--listen", "0.0.0.0")
    assert wide.returncode != 0
    assert "without TLS the hosts of a cluster are all on one machine" in wide.stderr
    made = cluster({"num_cpus": 1, "tls": False}, {"num_cpus": 1, "resources": {"far": 1}})
    assert made.address.endswith(".plain")

    @ray.remote(resources={"far": 1})
    def size(data: bytes) -> int:
        return len(data)

    assert ray.get(size.remote(bytes(3_000_000))) == 3_000_000
    with pytest.raises(ConnectionError, match="token"):
        launch(join=made.address.partition("/")[0] + "/" + "A" * 43 + ".plain")


def test_one_host_of_several_is_ended_by_its_name(own_folder: Path) -> None:
    try:
        assert raymesh("start", "--head", "--num-cpus", "1").returncode == 0
        assert raymesh("start", "--address", "auto", "--num-cpus", "1").returncode == 0
        member, head = _address.running()
        unknown = raymesh("stop", "1")
        assert unknown.returncode != 0
        assert f"pid {head.pid}, {head.address}" in unknown.stderr
        assert f"Ended the host with pid {member.pid}" in raymesh("stop", member.address).stdout
        assert _address.running() == [head]
    finally:
        raymesh("stop")


def test_what_a_worker_prints_far_away_is_shown_with_its_host(
    own_folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "prints.py"
    program.write_text(
        "import sys, raymesh as ray\n"
        "from raymesh.cluster_utils import Cluster\n"
        "cluster = Cluster(initialize_head=True, connect=True)\n"
        "@ray.remote\n"
        "def shout():\n"
        "    print('out there')\n"
        "    print('and wrong', file=sys.stderr)\n"
        "ray.get(shout.remote())\n"
        "ray.shutdown()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_DEDUP_LOGS": "0"}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done
    assert "ip=127.0.0.1) out there" in done.stdout, done
    assert "and wrong" in done.stderr


def test_nobody_there_is_told_at_once(own_folder: Path) -> None:
    for address in ("auto", "127.0.0.1:1", "ray://127.0.0.1:10001"):
        with pytest.raises(ConnectionError, match="hint:"):
            ray.init(address=address)
    assert not ray.is_initialized()


def test_each_wrong_string_is_told_with_the_way_out(cluster: Start) -> None:
    made = cluster({}, connect=False)
    good: str = made.address
    place, _, secret = good.partition("/")
    token, _, fingerprint = secret.partition(".")
    other = "A" * 43
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{nobody.getsockname()[1]}/{secret}"
        cases = [
            (f"{place}/{other}.{fingerprint}", ConnectionError, "token is not this cluster's"),
            (f"{place}/{token}.{other}", ConnectionError, "certificate"),
            (closed, ConnectionError, "answers nothing"),
            (good[:-3], ValueError, "cut off"),
            (f"no.such.host.invalid:1/{secret}", ConnectionError, "no host that can be found"),
        ]
        for address, error, text in cases:
            with pytest.raises(error, match=text) as caught:
                ray.init(address=address)
            assert "hint:" in str(caught.value)
            assert token not in str(caught.value)
    ray.init(address=good, log_to_driver=False)
    assert ray.get(ray.put(1)) == 1


def test_a_string_of_another_kind_of_head_is_told(own_folder: Path, cluster: Start) -> None:
    sealed: str = cluster({}, connect=False).address
    plain: str = cluster({"tls": False}, connect=False).address
    fingerprint = sealed.rpartition(".")[2]
    for address, text in [
        (plain.removesuffix("plain") + fingerprint, "does not encrypt its links"),
        (sealed.removesuffix(fingerprint) + "plain", "is for a head with --no-tls only"),
    ]:
        with pytest.raises(ConnectionError, match=text):
            ray.init(address=address)
        told = raymesh("start", "--address", address)
        assert (told.returncode, text in told.stderr) == (1, True), told.stderr


@pytest.mark.parametrize("says", ["nothing", "farewell"])
def test_whoever_answers_nothing_that_a_head_would_is_told(own_folder: Path, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        address = f"127.0.0.1:{service.getsockname()[1]}/{'A' * 43}.{'A' * 43}"

        def answer() -> None:
            connection, _ = service.accept()
            with connection:
                if says == "nothing":
                    while connection.recv(4096):
                        pass

        thread = threading.Thread(target=answer)
        thread.start()
        began = time.monotonic()
        with pytest.raises(ConnectionError, match="hint: the address must be that of a head"):
            ray.init(address=address)
        assert time.monotonic() - began < 15
        thread.join()


def test_strangers_at_the_door_keep_nobody_out(cluster: Start) -> None:
    made = cluster({"num_cpus": 1}, connect=False)
    host, port = made.address.partition("/")[0].split(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(400)]
    for number, stranger in enumerate(strangers):
        try:
            stranger.send(
                [b"GET / HTTP/1.1\r\n\r\n", os.urandom(2000), b"", b"\x16\x03\x01"][number % 4]
            )
        except OSError:
            continue  # shown out already
    ray.init(address=made.address, log_to_driver=False)
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    for stranger in strangers:
        stranger.close()


def test_a_service_that_is_no_head_is_named(own_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]

        def answer() -> None:
            connection, _ = service.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        secret = "A" * 43
        with pytest.raises(ConnectionError, match="does not speak raymesh"):
            ray.init(address=f"127.0.0.1:{port}/{secret}.{secret}")
        thread.join()


def test_a_port_in_use_is_told(own_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = raymesh("start", "--head", "--port", str(port))
    assert started.returncode == 1
    assert "cannot listen" in started.stderr
    assert "--port" in started.stderr


def test_a_host_of_another_machine_listens_where_others_reach_it(own_folder: Path) -> None:
    here = _machine.ip_address()
    if here.startswith("127."):
        pytest.skip("this machine has no network")
    try:
        head = raymesh("start", "--head", "--listen", here, "--num-cpus", "1")
        assert head.returncode == 0, head.stderr
        [record] = _address.running()
        hidden = raymesh("start", "--address", record.join, "--listen", "127.0.0.1")
        assert hidden.returncode == 1
        assert "leave --listen out" in hidden.stderr
        joined = raymesh(
            "start", "--address", record.join, "--num-cpus", "1", "--resources", '{"far": 1}'
        )
        assert f"{here}:" in joined.stdout, joined.stderr
        ray.init(address=record.join, log_to_driver=False)

        @ray.remote(resources={"far": 1})
        def far() -> int:
            return 1

        assert ray.get(far.remote(), timeout=60) == 1
        assert ray.cluster_resources()[f"node:{here}"] == 2
    finally:
        ray.shutdown()
        raymesh("stop")


def test_ctrl_c_while_a_host_starts_leaves_none_behind(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def keep(*args: Any, **kwargs: Any) -> subprocess.Popen[str]:
        started.append(popen(*args, **kwargs))
        return started[-1]

    def interrupt(_: Any, host: Any) -> None:
        host.write("half of what it is to be")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", keep)
    monkeypatch.setattr(json, "dump", interrupt)
    with pytest.raises(KeyboardInterrupt):
        launch(join=None, num_cpus=1)
    assert started[0].poll() is not None
    assert list(own_folder.glob("raymesh/*.log")) == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_the_hosts_of_a_cluster_end_with_the_program_that_has_made_it(
    own_folder: Path, sig: signal.Signals
) -> None:
    program = (
        "import time; from raymesh.cluster_utils import Cluster\n"
        "made = Cluster(initialize_head=True); made.add_node()\n"
        "print(made.head_node.pid, made.worker_nodes[0].pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        hosts = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(hosts) == 2
        process.send_signal(sig)
        _, alive = psutil.wait_procs(hosts, timeout=30)
    assert alive == []


def test_amounts_are_the_hosts_and_not_the_drivers(cluster: Start) -> None:
    made = cluster({}, connect=False)
    with pytest.raises(ValueError, match="num_cpus must not be provided"):
        ray.init(address=made.address, num_cpus=2)
    assert not ray.is_initialized()


def test_a_folder_that_others_can_read_is_not_used(own_folder: Path) -> None:
    (own_folder / "raymesh").mkdir(mode=0o755)
    os.chmod(own_folder / "raymesh", 0o755)
    with pytest.raises(PermissionError, match="hint:"):
        _address.running()
