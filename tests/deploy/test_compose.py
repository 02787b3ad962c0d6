"""`deploy/compose.yaml`: its schema, its settings, and that nothing is open that should not be."""

import re
import tomllib
import xml.etree.ElementTree as xml

import pytest
import yaml
from conftest import DEPLOY, FIRST_CREDENTIALS, python_tool, run

COMPOSE = DEPLOY / "compose.yaml"
TIERS = {"migrate", "ingest", "processor", "query"}


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(COMPOSE.read_text())


@pytest.fixture(scope="module")
def services(compose):
    return compose["services"]


def test_it_is_what_the_compose_specification_allows():
    run(python_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_the_yaml_of_deploy_is_tidy():
    files = [path for path in DEPLOY.rglob("*.y*ml") if not {"templates", "node_modules"} & set(path.parts)]
    rules = "{extends: default, rules: {line-length: {max: 140}, document-start: disable, braces: disable, brackets: disable, comments: disable}}"
    run(python_tool("yamllint"), "--strict", "--config-data", rules, *files)


def test_settings_are_those_of_the_program(services, settings, accepts):
    for name in TIERS:
        given = {key: value for key, value in services[name]["environment"].items() if key.startswith("SPINDLE_")}
        assert set(given) - FIRST_CREDENTIALS <= settings, name
        assert {"SPINDLE_KAFKA__BROKERS", "SPINDLE_CLICKHOUSE__URL"} <= set(given), name
        assert accepts({key: value for key, value in given.items() if key not in FIRST_CREDENTIALS}) == "", name


def test_tiers_run_commands_that_exist(services, commands):
    for name in TIERS:
        assert services[name]["command"] == [name] and name in commands
    for service in services.values():
        check = service["healthcheck"].get("test", [])
        assert check[:2] != ["CMD", "/usr/bin/spindle"] or check[2] in commands


def test_ports_are_bound_to_loopback_and_stores_have_none(services):
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"
    assert not {"kafka", "clickhouse", "processor"} & {name for name, service in services.items() if "ports" in service}
    assert all(services[name]["networks"] == ["inside"] for name in ["kafka", "clickhouse"])


def test_no_secret_has_a_value_and_each_must_be_given(services):
    example = (DEPLOY / "compose.env.example").read_text()
    asked_for = set()
    for name, service in services.items():
        for key, value in service["environment"].items() if "environment" in service else []:
            if re.search(r"PASSWORD|TOKEN|API_KEY", key):
                variable = re.fullmatch(r"\$\{(\w+):\?.+\}", value)
                assert variable, f"{name}: {key}"
                asked_for.add(variable[1])
    assert asked_for == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    assert "deploy/.env" in (DEPLOY.parent / ".gitignore").read_text()


def test_everything_is_bounded_watched_and_waits_for_what_it_needs(services):
    for name, service in services.items():
        limits = service["deploy"]["resources"]["limits"]
        assert {"cpus", "memory"} <= set(limits), name
        assert name == "migrate" or "test" in service["healthcheck"], name
        assert not service["image"].endswith(":latest") and ":" in service["image"], name
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed == "migrate" else "service_healthy"
            assert how["condition"] == expected, f"{name}: {needed}"
    for name in TIERS - {"migrate"}:
        assert set(services[name]["depends_on"]) == {"kafka", "migrate"}


def test_tiers_cannot_write_but_to_what_is_theirs(services):
    for name in TIERS:
        assert services[name]["read_only"] and services[name]["cap_drop"] == ["ALL"]
    for name in TIERS - {"migrate"}:
        places = services[name].get("tmpfs", []) + services[name].get("volumes", [])
        assert any("/var/lib/spindle" in place for place in places), name


def test_tiers_are_given_time_to_finish(services):
    drain = tomllib.loads((DEPLOY.parent / "spindle.default.toml").read_text())["server"]["drain_timeout"]
    for name in TIERS:
        assert int(services[name]["stop_grace_period"].rstrip("s")) > int(drain.rstrip("s"))


def test_mounted_files_and_named_volumes_exist(compose, services):
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
            else:
                assert source in compose["volumes"], f"{name}: {source}"


def test_the_settings_of_clickhouse_are_xml_and_bound_what_grows():
    root = xml.parse(DEPLOY / "clickhouse" / "spindle.xml").getroot()
    assert root.tag == "clickhouse"
    for log in (child for child in root if child.tag.endswith("_log")):
        assert log.get("remove") == "1" or "INTERVAL" in log.findtext("ttl"), log.tag
