"""TLS: nothing is to be read on the way, and Nimbus and probes are known by their certificates; by a real JVM, too."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stormwright.client import Client
from stormwright.errors import ClusterError, InputError
from stormwright.service.auth.sessions import SECURE_COOKIE
from stormwright.service.auth.settings import Tls, tls_context
from stormwright.service.http import server
from stormwright.service.http.app import Endpoints
from stormwright.service.http.deliveries import BodyRecipient, Deliveries
from stormwright.service.http.server import HttpServer
from stormwright.storm.jvm import LIGHT, STORM_HOME, STORMWRIGHT_JAR, java_command, require_java
from tests.service.auth.authorities import Authority
from tests.service.auth.guarded import HOST, Guarded, guarded

Speaks = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither while connections end nor when the service does."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def others(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "others")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def url(service: Guarded) -> str:
    return f"https://{service.host}:{service.port}"


def test_client_accepts_only_service_with_trusted_certificate(
    ours: Authority, others: Authority, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded(state, tls=ours.tls(HOST), context=ours.context()) as service:
        status, headers, _ = service.as_role("viewer", "GET", "/v1/modes")
        assert (status, headers["strict-transport-security"]) == (200, "max-age=31536000")
        assert service.as_role("bridge", "POST", "/v1/perflog", b"a\n")[0] == 204
        assert service.as_role("viewer", "POST", "/v1/perflog", b"a\n")[0] == 403
        cookie = service.ask("POST", "/login", body=f"token={service.secrets['viewer']}".encode())[1]["set-cookie"]
        assert cookie.startswith(f"{SECURE_COOKIE}=")
        assert "; Secure" in cookie
        # What the system trusts is told to OpenSSL by its own variable.
        monkeypatch.setenv("SSL_CERT_FILE", str(ours.file))
        assert Client(url(service), "anna", token=service.secrets["viewer"]).modes().default == "observe"
        monkeypatch.setenv("SSL_CERT_FILE", str(others.file))
        with pytest.raises(ClusterError, match="certificate verify failed"):
            Client(url(service), "anna", token=service.secrets["viewer"]).modes()


def test_nothing_but_tls_is_spoken(ours: Authority, state: Path) -> None:
    with guarded(state, tls=ours.tls(HOST), context=ours.context()) as service:
        with socket.create_connection((HOST, service.port), timeout=20) as plain:
            plain.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(1000)
        old = ours.context()
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection((HOST, service.port), timeout=20) as one, pytest.raises(ssl.SSLError):
            old.wrap_socket(one, server_hostname=HOST)
        assert service.ask("GET", "/v1/health")[0] == 200


@pytest.mark.long
def test_connection_without_tls_handshake_is_closed_after_timeout(
    ours: Authority, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.5)
    with guarded(state, tls=ours.tls(HOST), context=ours.context()) as service:
        with socket.create_connection((HOST, service.port), timeout=20) as silent:
            assert silent.recv(1) == b""
        assert service.ask("GET", "/v1/health")[0] == 200


def test_with_an_authority_nimbus_and_probes_show_its_certificates(
    ours: Authority, others: Authority, state: Path
) -> None:
    tls = ours.tls(HOST, others)
    with guarded(state, tls=tls, context=ours.context()) as service:
        # A token alone does not do; people need no certificate.
        assert service.as_role("bridge", "POST", "/v1/perflog", b"a\n")[0] == 401
        assert service.as_role("bridge", "POST", "/v1/schedule", b"{}")[0] == 401
        assert service.as_role("viewer", "GET", "/v1/modes")[0] == 200
        service.context = ours.context(others.certify("nimbus.storm", "nimbus-1"))
        assert service.ask("POST", "/v1/perflog", body=b"a\n")[0] == 204
        assert service.ask("POST", "/v1/schedule", body=b"{}")[0] == 400
        assert service.ask("GET", "/v1/modes")[0] == 401, "a certificate is for what Nimbus and probes do"
        assert service.ask("POST", "/v1/perflog", body=b"a\n", origin="https://evil.example")[0] == 403
        assert service.noted()[0]["who"] == ""
        assert service.delivered == [b"a\n"]
        service.context = ours.context(ours.certify("stranger.storm"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            service.ask("POST", "/v1/perflog", body=b"a\n")


@pytest.mark.long
def test_tls_certificate_is_renewed_without_restart(ours: Authority, others: Authority, state: Path) -> None:
    pair = ours.certify(HOST)
    tls = Tls(pair.certificate, pair.key)
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]

    async def app(_: object, __: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body"})  # type: ignore[operator]

    def shown() -> bytes | None:
        with socket.create_connection((HOST, port), timeout=20) as one:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(one) as channel:
                return channel.getpeercert(binary_form=True)

    with HttpServer(Endpoints(app, Deliveries(BodyRecipient(lambda _: None))), HOST, port, None, tls) as serving:
        before = shown()
        good = pair.certificate.read_bytes()
        pair.certificate.write_bytes(others.certify(HOST).certificate.read_bytes())
        with pytest.raises(InputError, match="is no certificate with its key"):
            serving.renew()
        assert shown() == before, "a pair that does not fit changes nothing"
        pair.certificate.write_bytes(good)
        fresh = ours.certify(HOST)
        assert fresh == pair
        serving.renew()
        assert shown() not in (before, None)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_invalid_tls_key_is_rejected(ours: Authority, content: bytes) -> None:
    pair = ours.certify(HOST)
    pair.key.write_bytes(content)
    with pytest.raises(InputError, match="the key without a password") as error:
        tls_context(Tls(pair.certificate, pair.key))
    assert error.value.source == "--tls-cert"


@pytest.fixture(scope="module")
def speaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaks]:
    """What becomes of a question and a delivery of a JVM with these keys of storm.yaml."""
    classes = tmp_path_factory.mktemp("classes")
    javac = shutil.which("javac")
    assert javac, "no javac: install a JDK"
    there = [STORMWRIGHT_JAR, STORM_HOME / "lib" / "*"]
    source = Path(__file__).parent / "jvm" / "Speak.java"
    path = ":".join(map(str, there))
    subprocess.run([javac, "-nowarn", "-proc:none", "-cp", path, "-d", str(classes), source], check=True)
    command = java_command(
        require_java(),
        main="stormwright.probe.Speak",
        class_path=[classes, *there],
        flags=LIGHT,
        heap_mb=128,
        properties={"java.io.tmpdir": tmp_path_factory.mktemp("tmp")},
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin
        assert process.stdout
        commands, heard = process.stdin, process.stdout

        def speak(address: str, **conf: object) -> tuple[str, str]:
            keys = [f"stormwright.{name.replace('_', '.')}={value}" for name, value in conf.items()]
            commands.write("\t".join([address, *keys]) + "\n")
            commands.flush()
            answer, _, delivered = heard.readline().strip().partition("\t")
            return answer, delivered

        yield speak
        commands.close()
        process.wait(30)


def stored_token(directory: Path, secret: str) -> Path:
    file = directory / "bridge.token"
    file.write_text(f"{secret}\n", encoding="utf-8")
    return file


@pytest.mark.slow
def test_jvm_authenticates_with_token_file(speaks: Speaks, state: Path) -> None:
    with guarded(state) as service:
        address = f"http://{service.host}:{service.port}"
        answer, delivered = speaks(address)
        assert answer.startswith("HTTP 401")
        assert delivered == "kept"
        file = stored_token(state, service.secrets["bridge"])
        answer, delivered = speaks(address, token_file=file)
        assert answer.startswith("HTTP 400"), "it is let in, and {} is no question"
        assert (delivered, service.delivered) == ("delivered", [b"a record\n"])
        stored_token(state, service.secrets["probe"])
        assert [each[:8] for each in speaks(address, token_file=file)] == ["HTTP 403", "delivere"]
        answer, delivered = speaks(address, token_file=state / "none")
        assert (answer, delivered) == (
            f"stormwright.token.file {state / 'none'} cannot be read: NoSuchFileException",
            "kept",
        )
        for wrong in ("", "two words", "one\nword\r\nx-evil: y"):
            answer, delivered = speaks(address, token_file=stored_token(state, wrong))
            assert (answer, delivered) == (f"stormwright.token.file {file} holds no token, which is one word", "kept")


@pytest.mark.long
def test_jvm_verifies_certificate_and_host_name_of_service(
    speaks: Speaks, ours: Authority, others: Authority, state: Path
) -> None:
    with guarded(state, tls=ours.tls(HOST), context=ours.context()) as service:
        file = stored_token(state, service.secrets["bridge"])
        answer, delivered = speaks(url(service), token_file=file, tls_ca=ours.file)
        assert (answer[:8], delivered) == ("HTTP 400", "delivered")
        for authority in ({}, {"tls_ca": others.file}):
            answer, delivered = speaks(url(service), token_file=file, **authority)
            assert "unable to find valid certification path" in answer
            assert delivered == "kept"
        assert len(service.delivered) == 1
    with guarded(state / "other", tls=ours.tls("other.storm"), context=None) as service:
        answer, delivered = speaks(url(service), token_file=file, tls_ca=ours.file)
        assert "subject alternative" in answer.lower(), "the certificate is another host's"
        assert (delivered, service.delivered) == ("kept", [])


@pytest.mark.long
def test_a_jvm_shows_its_certificate(speaks: Speaks, ours: Authority, others: Authority, state: Path) -> None:
    with guarded(state, tls=ours.tls(HOST, others), context=ours.context()) as service:
        mine, strange = others.certify("nimbus.storm"), ours.certify("stranger.storm")
        conf = {"tls_ca": ours.file, "tls_cert": mine.certificate, "tls_key": mine.key}
        answer, delivered = speaks(url(service), **conf)
        assert (answer[:8], delivered) == ("HTTP 400", "delivered")
        answer, delivered = speaks(url(service), tls_ca=ours.file)
        assert (answer[:8], delivered) == ("HTTP 401", "kept")
        answer, delivered = speaks(url(service), tls_ca=ours.file, tls_cert=strange.certificate, tls_key=strange.key)
        assert not re.match(r"HTTP \d|answer", answer)
        assert delivered == "kept"
        answer, delivered = speaks(url(service), tls_ca=ours.file, tls_cert=mine.certificate)
        assert "belong together" in answer
        mine.key.write_text("nonsense", encoding="utf-8")
        answer, delivered = speaks(url(service), **conf)
        assert (f"{mine.key} holds no key in PEM" in answer, delivered) == (True, "no shipper")
