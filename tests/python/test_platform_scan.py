"""A scan over what only real counterparts show: certificates, an S3 service that checks signatures, an OIDC issuer."""

import contextlib
import datetime
import http.server
import json
import ssl
import threading
from urllib.parse import parse_qsl, urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
import requests
import trustme
from moto.server import ThreadedMotoServer

import conftest

ACCESS_KEY = "AKIAEXAMPLE"
SECRET_KEY = "hunter2-of-the-storage"
REGION = "eu-central-1"


@contextlib.contextmanager
def serving(answer, certificate=None):
    """An HTTP server, over TLS with a certificate; `answer` gives status, type and body for a request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            status, kind, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        # The handshake belongs to the connection's own thread: a client that refuses it must not end the listener.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def healthy(_):
    return 200, "application/json", b'{"status": "UP", "version": "7.1"}'


def signature_of(host, query):
    """What AWS's own client library would have signed this request with."""
    credentials = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
    signer = botocore.auth.S3SigV4QueryAuth(credentials, "s3", REGION, expires=int(query["X-Amz-Expires"]))
    rest = {name: value for name, value in query.items() if name != "X-Amz-Signature"}
    request = botocore.awsrequest.AWSRequest("GET", f"http://{host}/", params=rest)
    request.url = requests.Request("GET", f"http://{host}/", params=rest).prepare().url
    request.params = {}
    request.context["timestamp"] = query["X-Amz-Date"]
    request.context["payload_signing_enabled"] = False
    canonical = signer.canonical_request(request)
    return signer.signature(signer.string_to_sign(request, canonical), request)


@pytest.fixture(scope="module")
def storage():
    """An S3 service with three buckets, behind a door that checks signatures."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    for name in ("drafts", "letters", "scans"):
        client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})

    def answer(request):
        query = dict(parse_qsl(urlsplit(request.path).query))
        if query.get("X-Amz-Signature") != signature_of(request.headers["Host"], query):
            return 403, "application/xml", b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        listed = requests.get(f"http://{host}:{port}{request.path}", timeout=10)
        return listed.status_code, "application/xml", listed.content

    with serving(answer) as url:
        yield url
    moto.stop()


@pytest.fixture(scope="module")
def issuer():
    def answer(request):
        url = f"http://{request.headers['Host']}"
        bodies = {
            "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/keys"},
            "/keys": {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]},
        }
        body = bodies.get(request.path)
        return (200 if body else 404), "application/json", json.dumps(body).encode()

    with serving(answer) as url:
        yield url


def scanning_server(folder, settings):
    return contextlib.closing(Scanning(folder, settings))


class Scanning(conftest.Server):
    def scan(self):
        response = self.get("/api/platform/discover", secret=self.token)
        assert response.status_code == 200, response.text
        assert SECRET_KEY not in response.text
        return response.json()

    def close(self):
        logged = self.logs()
        self.stop()
        assert SECRET_KEY not in logged and "X-Amz-Signature" not in logged


def test_certificates_an_s3_service_and_an_oidc_issuer_are_seen_for_what_they_are(tmp_path, storage, issuer):
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "trusted.pem")
    yesterday = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    certificates = {
        "trusted": ours.issue_cert("127.0.0.1"),
        "unknown": theirs.issue_cert("127.0.0.1"),
        "elsewhere": ours.issue_cert("elsewhere.example"),
        "expired": ours.issue_cert("127.0.0.1", not_before=yesterday - datetime.timedelta(days=9), not_after=yesterday),
    }
    with contextlib.ExitStack() as stack:
        services = [
            {"key": key, "endpoint": stack.enter_context(serving(healthy, certificate))}
            for key, certificate in certificates.items()
        ]
        settings = {
            "SSL_CERT_FILE": str(tmp_path / "trusted.pem"),
            "SPINDLE_PLATFORM__SERVICES": json.dumps(services),
            "SPINDLE_PLATFORM__AUTH_PROVIDER__URL": issuer,
            "SPINDLE_PLATFORM__AUTH_PROVIDER__NAME": "Issuer",
            "SPINDLE_PLATFORM__DOCUMENT_STORAGE__URL": storage,
            "SPINDLE_PLATFORM__DOCUMENT_STORAGE__REGION": REGION,
            "SPINDLE_PLATFORM__DOCUMENT_STORAGE__ACCESS_KEY": ACCESS_KEY,
            "SPINDLE_PLATFORM__DOCUMENT_STORAGE__SECRET_KEY": SECRET_KEY,
        }
        server = stack.enter_context(scanning_server(tmp_path, settings))
        report = server.scan()
        found = report["services"]
        assert (found["trusted"]["status"], found["trusted"]["version"]) == ("healthy", "7.1"), report
        for key, error in {
            "unknown": "its certificate is not trusted",
            "elsewhere": "its certificate is for another host",
            "expired": "its certificate has expired",
        }.items():
            assert (found[key]["status"], found[key]["error"]) == ("unhealthy", error), report
        outside = report["externalIntegrations"]
        assert outside["authProvider"]["status"] == "healthy", report
        assert (outside["authProvider"]["name"], outside["authProvider"]["endpoint"]) == ("Issuer", issuer)
        assert (outside["documentStorage"]["status"], outside["documentStorage"]["buckets"]) == ("healthy", 3), report
        assert outside["documentStorage"]["endpoint"] == storage
        assert "expired" in server.command("discover")


def test_credentials_that_the_storage_refuses_and_an_issuer_of_another_name_are_told(tmp_path, storage, issuer):
    settings = {
        # Another name for the same host: tokens would name the one, and be refused for it.
        "SPINDLE_PLATFORM__AUTH_PROVIDER__URL": issuer + "/",
        "SPINDLE_PLATFORM__DOCUMENT_STORAGE__URL": storage,
        "SPINDLE_PLATFORM__DOCUMENT_STORAGE__REGION": REGION,
        "SPINDLE_PLATFORM__DOCUMENT_STORAGE__ACCESS_KEY": ACCESS_KEY,
        "SPINDLE_PLATFORM__DOCUMENT_STORAGE__SECRET_KEY": "another",
    }
    with scanning_server(tmp_path, settings) as server:
        report = server.scan()
        outside = report["externalIntegrations"]
        assert outside["authProvider"]["status"] == outside["documentStorage"]["status"] == "unhealthy"
        said = "\n".join(report["summary"]["recommendations"])
        assert "rejected the credentials (status 403)" in said and "not exactly the configured one" in said, said
