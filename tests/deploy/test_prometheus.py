"""Prometheus' configuration, the alerts and the dashboard: what they ask for exists, parses and behaves."""

import json
import re
import subprocess

import pytest
import yaml
from conftest import DEPLOY, GO_TOOLS, ROOT, run

ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "spindle.json"
GUIDE = ROOT / "docs" / "guide" / "distributed.md"
# Metrics of others: Prometheus' own, and ClickHouse's.
OF_OTHERS = {"up", "ClickHouseAsyncMetrics_DiskAvailable_default", "ClickHouseAsyncMetrics_DiskTotal_default"}
# What Grafana puts in before Prometheus sees an expression.
VARIABLES = {"$__rate_interval": "5m", "$namespace": ".*", "$project": ".*"}


@pytest.fixture(scope="module")
def rules():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


@pytest.fixture(scope="module")
def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def known():
    """The metrics of the program: in the reference, or created with their first label."""
    reference = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE)
    sources = [path for crate in ["src", "eventlog", "store", "ingest", "processor", "query"] for path in (ROOT / crate).rglob("*.rs")]
    literals = {name for path in sources for name in re.findall(r'"(spindle_[a-z_]+)"', path.read_text())}
    return set(reference) | literals | OF_OTHERS


def metrics_of(expressions):
    """Parses every expression with Prometheus' parser and gives the metrics they name."""
    lines = "".join(json.dumps(expression) + "\n" for expression in expressions)
    done = subprocess.run([GO_TOOLS / "rules", "parse"], input=lines, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(expressions)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for names in answers for name in names}


def with_values(expression):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def test_alerts_fire_when_they_should_and_not_otherwise():
    run(GO_TOOLS / "rules", "test", DEPLOY / "prometheus" / "alerts_test.yml")


def test_an_alert_that_never_fires_in_the_tests_is_a_fault(tmp_path):
    (tmp_path / "alerts.yml").write_text(ALERTS.read_text())
    (tmp_path / "test.yml").write_text("rule_files: [alerts.yml]\nevaluation_interval: 1m\ntests: []\n")
    done = run(GO_TOOLS / "rules", "test", tmp_path / "test.yml", ok=False)
    assert done.returncode == 1 and "no test in which SpindleDeadLetters fires" in done.stderr


def test_alerts_name_metrics_that_exist(rules, known):
    assert metrics_of([rule["expr"] for rule in rules]) - known == set()


def test_every_alert_has_a_reason_a_severity_and_a_part_in_the_guide(rules):
    headings = {heading.lower() for heading in re.findall(r"^#+ (.+)$", GUIDE.read_text(), re.MULTILINE)}
    for rule in rules:
        assert rule["alert"].startswith("Spindle")
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description", "runbook"} == set(rule["annotations"])
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (ROOT / page) == GUIDE and anchor == rule["alert"].lower()
        assert anchor in headings, f"the guide does not say what to do about {rule['alert']}"
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_prometheus_takes_the_configuration_and_would_refuse_another(tmp_path):
    run(GO_TOOLS / "rules", "config", DEPLOY / "prometheus" / "prometheus.yml")
    wrong = tmp_path / "prometheus.yml"
    wrong.write_text("scrape_configs: [{job_name: a, dns_configs: []}]\n")
    assert "dns_configs" in run(GO_TOOLS / "rules", "config", wrong, ok=False).stderr


def test_what_is_scraped_is_what_compose_runs():
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    jobs = {job["job_name"]: job for job in scraped["scrape_configs"]}
    (names,) = [config["names"] for config in jobs["spindle"]["dns_sd_configs"]]
    assert set(names) == {"ingest", "processor", "query"} <= set(services)
    assert jobs["clickhouse"]["static_configs"][0]["targets"] == ["clickhouse:9363"]
    assert "<port>9363</port>" in (DEPLOY / "clickhouse" / "spindle.xml").read_text()
    assert scraped["rule_files"] == ["alerts.yml"]
    mounted = services["prometheus"]["volumes"]
    assert "./prometheus/alerts.yml:/etc/prometheus/alerts.yml:ro" in mounted


def test_the_dashboard_asks_for_metrics_that_exist(panels, known):
    expressions = [with_values(target["expr"]) for panel in panels for target in panel["targets"]]
    assert metrics_of(expressions) - known == set()


def test_every_panel_has_a_place_a_source_a_unit_and_says_what_it_shows(dashboard, panels):
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    for panel in panels:
        assert panel["description"] and panel["title"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}" and "$namespace" in target["expr"] or "$project" in target["expr"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


def test_the_variables_that_are_used_are_there(dashboard):
    named = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", DASHBOARD.read_text()))
    assert named == used == {"datasource", "namespace", "project"}
    assert [v["type"] for v in dashboard["templating"]["list"]][0] == "datasource"


def test_grafana_is_given_the_dashboard_and_its_source():
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/spindle.yaml").read_text())["providers"]
    grafana = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["grafana"]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
    assert f"./grafana/spindle.json:{provider['options']['path']}/spindle.json:ro" in grafana["volumes"]
