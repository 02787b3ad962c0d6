"""The programs with real clients in them, as command lines: who runs them depends on the packages they need."""

import os
import pathlib
from urllib.parse import urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[2]


def older(script, *arguments):
    """With the packages of `clients.in`: llmonitor, early lunary, and the openai and langchain of their day."""
    return python("CLIENTS_PYTHON", "target/clients/bin/python", script, arguments)


def current(script, *arguments):
    """With the packages of `clients-current.in`: lunary, OpenTelemetry and openai as they are now."""
    return python("CLIENTS_CURRENT_PYTHON", "target/clients-current/bin/python", script, arguments)


def frameworks(script, *arguments):
    """With the packages of `clients-frameworks.in`: agent frameworks, and Langfuse's SDK."""
    return python("CLIENTS_FRAMEWORKS_PYTHON", "target/clients-frameworks/bin/python", script, arguments)


def python(variable, interpreter, script, arguments):
    return [ROOT / os.environ.get(variable, interpreter), ROOT / "tests/python/clients" / script, *arguments]


def node(script, *arguments):
    """With the packages of `tests/node`."""
    return ["node", ROOT / "tests/node" / script, *arguments]


def with_key(url, key):
    """An address whose user is the key, for clients that cannot send a header of their own."""
    return f"http://{key}:x@{urlsplit(url).netloc}"


def langfuse_variables(url, key):
    """What a user of Langfuse's SDK sets: the secret is the key, and the public one can be anything."""
    return {"LANGFUSE_BASE_URL": url, "LANGFUSE_SECRET_KEY": key, "LANGFUSE_PUBLIC_KEY": "pk-lf-tests"}


def otel_variables(url, key):
    """What a user of OpenTelemetry sets: where to send, with which key, compressed, and under which name."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{key}",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "weather-app",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
