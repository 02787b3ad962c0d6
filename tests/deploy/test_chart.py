"""The Helm chart, linted and rendered by Helm's own code, and what it renders against the schemas of Kubernetes."""

import json
import pathlib
import re
import tomllib

import kubernetes_validate
import pytest
import yaml
from conftest import DEPLOY, FIRST_CREDENTIALS, ROOT, python_tool, run

CHART = DEPLOY / "helm" / "spindle"
VALUES = pathlib.Path(__file__).parent / "values"
# The oldest that the chart says it supports, and the newest whose schemas are here.
KUBERNETES = ["1.30", "1.36"]
# Kinds of others, whose schemas are not here: what they need is looked at by hand below.
OF_OTHERS = {"ScaledObject", "PodMonitor", "PrometheusRule"}
TIERS = {"ingest", "processor", "query"}


def render(*values, ok=True):
    """What the chart renders for these values; what Helm says against them where `ok` is false."""
    options = ["--namespace", "watch", "--kube-version", f"{KUBERNETES[0]}.0", *(f"--values={file}" for file in values)]
    helm = python_tool("helm")
    linted = run(helm, "lint", "--strict", CHART, *options, ok=ok)
    done = run(helm, "template", "spin", CHART, *options, ok=ok)
    if not ok:
        assert linted.returncode or done.returncode, done.stdout
        return linted.stdout + done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.fixture(scope="module", params=["smallest", "everything", "cluster"])
def rendered(request):
    return render(VALUES / f"{request.param}.yaml")


@pytest.fixture(scope="module")
def everything():
    return render(VALUES / "everything.yaml")


def find(documents, kind, end=""):
    (found,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"].endswith(end)]
    return found


def workloads(documents):
    return {one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in documents if "template" in one.get("spec", {})}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (only,) = pod(workload)["containers"]
    return only


def environment(workload):
    """Plain variables with their values, and the names of the others."""
    variables = container(workload)["env"]
    names = [variable["name"] for variable in variables]
    assert len(set(names)) == len(names), "a variable is given twice"
    plain = {variable["name"]: variable["value"] for variable in variables if "value" in variable}
    return plain, set(names) - set(plain)


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[unit]


@pytest.mark.parametrize("version", KUBERNETES)
def test_what_is_rendered_is_what_kubernetes_takes(rendered, version):
    for document in rendered:
        if document["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_can_find_something(everything):
    wrong = {**find(everything, "Deployment", "ingest")}
    wrong["spec"] = {**wrong["spec"], "replica": 3}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[0], strict=True)


def test_names_are_given_once_and_fit(rendered):
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 and name.startswith("spin-spindle") for _, name in names)
    assert set(workloads(rendered)) == TIERS | {"migrate"}


def test_everything_that_can_be_switched_on_is_rendered(everything):
    kinds = {one["kind"] for one in everything}
    assert kinds == OF_OTHERS | {
        "Deployment", "StatefulSet", "Job", "Service", "Ingress", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap",
    }  # fmt: skip


def test_settings_are_those_of_the_program_and_it_accepts_their_values(rendered, settings, accepts):
    for tier, workload in workloads(rendered).items():
        plain, secret = environment(workload)
        assert set(plain) | secret <= settings | FIRST_CREDENTIALS, tier
        assert accepts(plain) == "", tier
        assert "SPINDLE_CLICKHOUSE__PASSWORD" not in plain and not FIRST_CREDENTIALS & set(plain)


def test_what_holds_for_all_tiers_can_be_set_for_one(everything):
    plain = {tier: environment(workload)[0] for tier, workload in workloads(everything).items()}
    assert {tier: given["SPINDLE_LOGS__FILTER"] for tier, given in plain.items()} == {
        "ingest": "warn", "processor": "info,ingest=debug", "query": "info,ingest=debug", "migrate": "info,ingest=debug",
    }  # fmt: skip
    assert plain["ingest"]["SPINDLE_SERVER__MAX_CONNECTIONS"] == "20000"
    assert plain["query"]["SPINDLE_LOGS__FORMAT"] == "json"


def test_secrets_come_from_secrets(everything):
    references = {}
    for tier, workload in workloads(everything).items():
        for variable in container(workload)["env"]:
            if "secretKeyRef" in variable.get("valueFrom", {}):
                where = variable["valueFrom"]["secretKeyRef"]
                references.setdefault(tier, {})[variable["name"]] = (where["name"], where["key"])
    stores = {"SPINDLE_KAFKA__PROPERTIES": ("kafka", "properties"), "SPINDLE_CLICKHOUSE__PASSWORD": ("clickhouse", "password")}
    stores |= {"SPINDLE_METRICS__TOKEN": ("metrics", "token")}
    first = {"SPINDLE_API_KEY": ("first", "api-key"), "SPINDLE_ADMIN_TOKEN": ("first", "admin-token")}
    assert references == {"ingest": stores, "processor": stores, "query": stores | first, "migrate": stores | first}


def test_pods_run_commands_that_exist_as_nobody_and_write_only_to_their_volume(rendered, commands):
    for tier, workload in workloads(rendered).items():
        spec, only = pod(workload), container(workload)
        assert only["args"] == [tier] and tier in commands and "command" not in only
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 65532
        assert spec["automountServiceAccountToken"] is False
        security = only["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"] and security["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= set(only["resources"]) and "memory" in only["resources"]["limits"]
        mounted = {mount["name"] for mount in only["volumeMounts"]}
        assert "data" in mounted == {volume["name"] for volume in spec["volumes"]} and mounted
        assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)


def test_the_image_is_the_one_of_its_digest(everything):
    of_pods = {container(workload)["image"] for workload in workloads(everything).values()}
    assert of_pods == {"registry.example.com/spindle:0.1.0-test@sha256:" + "0123456789abcdef" * 4}
    of_others = {container(workload)["image"] for workload in workloads(render(VALUES / "smallest.yaml")).values()}
    assert not any("@" in image for image in of_others)


def test_probes_ask_what_there_is(rendered):
    for tier in TIERS:
        only = container(workloads(rendered)[tier])
        assert only["livenessProbe"]["httpGet"]["path"] == "/health/live"
        ready = {"ingest": "/health/live"}.get(tier, "/health/ready")
        assert only["readinessProbe"]["httpGet"]["path"] == ready
        probes = [only[name]["httpGet"]["port"] for name in only if name.endswith("Probe")]
        assert set(probes) == {port["name"] for port in only["ports"]} == {"http"}
    # Sixty seconds of silence, which is beyond any pause of a healthy process.
    assert only["livenessProbe"]["periodSeconds"] * only["livenessProbe"]["failureThreshold"] == 60


def test_pods_are_given_more_time_to_end_than_they_may_take(rendered):
    defaults = tomllib.loads((ROOT / "spindle.default.toml").read_text())
    drain = seconds(defaults["server"]["drain_timeout"])
    for tier in TIERS:
        workload = workloads(rendered)[tier]
        plain, _ = environment(workload)
        before = container(workload).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        needs = before + drain
        if tier == "processor":
            needs += seconds(plain["SPINDLE_CLICKHOUSE__INSERT_TIMEOUT"])
        assert pod(workload)["terminationGracePeriodSeconds"] > needs, tier


def test_a_processor_is_known_by_the_name_of_its_pod(rendered):
    workload = workloads(rendered)["processor"]
    assert workload["kind"] == "StatefulSet"
    (instance,) = [variable for variable in container(workload)["env"] if variable["name"] == "SPINDLE_KAFKA__INSTANCE_ID"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    service = find(rendered, "Service", "processor")
    assert service["metadata"]["name"] == workload["spec"]["serviceName"] and service["spec"]["clusterIP"] == "None"


def test_selectors_find_the_pods_they_are_for(rendered):
    labels = {tier: workload["spec"]["template"]["metadata"]["labels"] for tier, workload in workloads(rendered).items()}

    def found(selector):
        return {tier for tier, given in labels.items() if selector.items() <= given.items()}

    for tier in TIERS:
        assert found(workloads(rendered)[tier]["spec"]["selector"]["matchLabels"]) == {tier}
        assert found(find(rendered, "Service", tier)["spec"]["selector"]) == {tier}
    for one in rendered:
        if one["kind"] == "PodDisruptionBudget":
            assert len(found(one["spec"]["selector"]["matchLabels"])) == 1
        if one["kind"] == "NetworkPolicy":
            assert len(found(one["spec"]["podSelector"]["matchLabels"])) == 1


def test_the_migration_comes_before_everything(rendered):
    job = find(rendered, "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    # Then nothing else of the chart is there yet: it may only refer to what is there before.
    assert not any("configMap" in volume for volume in pod(job)["volumes"])
    # Credentials that were made are only in its log.
    given = "SPINDLE_API_KEY" in environment(job)[1]
    assert ("hook-succeeded" in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]) == given


def test_scalers_scale_what_is_there(rendered):
    names = {(one["kind"], one["metadata"]["name"]) for one in rendered}
    for one in rendered:
        if one["kind"] in {"HorizontalPodAutoscaler", "ScaledObject"}:
            target = one["spec"]["scaleTargetRef"]
            assert (target["kind"], target["name"]) in names
            (scaled,) = [other for other in rendered if (other["kind"], other["metadata"]["name"]) == (target["kind"], target["name"])]
            assert "replicas" not in scaled["spec"], "an upgrade would undo what was scaled"


def test_keda_is_asked_for_the_lag_of_our_group(everything):
    spec = find(everything, "ScaledObject")["spec"]
    assert find(everything, "ScaledObject")["apiVersion"] == "keda.sh/v1alpha1"
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "kafka" and trigger["authenticationRef"] == {"name": "kafka"}
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    group = re.search(r'pub const GROUP: &str = "(\w+)"', (ROOT / "processor/src/config.rs").read_text())[1]
    assert trigger["metadata"]["consumerGroup"] == f"staging.events.{group}"
    assert trigger["metadata"]["topic"] == "staging.events"
    assert trigger["metadata"]["bootstrapServers"] == "k1.kafka:9093,k2.kafka:9093,k3.kafka:9093"
    plain, _ = environment(workloads(everything)["processor"])
    assert spec["maxReplicaCount"] * int(plain["SPINDLE_PROCESSOR__WORKERS"]) <= int(plain["SPINDLE_KAFKA__PARTITIONS"])
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] > behavior["scaleUp"]["stabilizationWindowSeconds"]


def test_monitoring_is_that_of_compose(everything):
    rule = find(everything, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    monitor = find(everything, "PodMonitor")["spec"]
    labels = workloads(everything)["processor"]["spec"]["template"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] == "http" and {"targetLabel": "job", "replacement": "spindle"} in endpoint["relabelings"]
    assert endpoint["authorization"] == {"credentials": {"name": "metrics", "key": "token"}}
    dashboard = find(everything, "ConfigMap", "dashboard")["data"]["spindle.json"]
    assert dashboard == (DEPLOY / "grafana" / "spindle.json").read_text()


def test_the_ingress_sends_events_to_ingest_the_rest_to_query_and_shows_nothing_of_the_inside(everything):
    (rule,) = find(everything, "Ingress")["spec"]["rules"]
    services = {one["metadata"]["name"] for one in everything if one["kind"] == "Service"}
    routes = [(path["path"], path["pathType"], path["backend"]["service"]["name"]) for path in rule["http"]["paths"]]
    assert {service for _, _, service in routes} <= services

    def tier(address):
        """The longest path that fits decides."""
        fitting = [
            (len(path), service)
            for path, kind, service in routes
            if address == path or (kind == "Prefix" and address.startswith(path + "/"))
        ]
        return max(fitting)[1].removeprefix("spin-spindle-") if fitting else None

    document = json.loads((DEPLOY.parent / "web" / "openapi.json").read_text())
    for path, operations in document["paths"].items():
        tags = {tag for operation in operations.values() for tag in operation["tags"]}
        inside, events = "health" in tags, "events" in tags
        assert tier(path) == (None if inside else "ingest" if events else "query"), path
    pages = (DEPLOY.parent / "query" / "src" / "page.rs").read_text().split("pub const PAGES")[1].split("];")[0]
    for page in ["", "docs", "assets/index.js", "favicon.svg", *re.findall(r'"([a-z-]+)"', pages)]:
        assert tier(f"/{page}") == "query", page


def test_the_defaults_of_the_chart_are_no_weaker_than_those_of_the_program(rendered):
    plain, _ = environment(workloads(rendered)["ingest"])
    assert int(plain["SPINDLE_KAFKA__MIN_INSYNC_REPLICAS"]) == 2 < int(plain["SPINDLE_KAFKA__REPLICATION"])


@pytest.mark.parametrize(
    "values, complaint",
    [
        ("clickhouse: {url: 'http://c:8123'}", "kafka.brokers is needed"),
        ("kafka: {brokers: 'k:9092'}", "clickhouse.url is needed"),
        ("kafka: {partitions: 2}\nprocessor: {replicas: 3}", "more than kafka.partitions"),
        ("kafka: {replication: 1}", "no record would ever be accepted"),
        ("kafka: {properties: [a=b], existingSecret: s}", "two places"),
        ("kafka: {brokers: 'k'}", "brokers"),
        ("kafka: {topics: 3}", "topics"),
        ("clickhouse: {url: 'https://c:8443'}", "url"),
        ("processor: {autoscaling: {kind: guess}}", "kind"),
        ("settings: {Logs: info}", "Logs"),
        ("ingest: {terminationGracePeriodSeconds: 10}", "terminationGracePeriodSeconds"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_reason(tmp_path, values, complaint):
    given = tmp_path / "values.yaml"
    given.write_text(values)
    base = [] if "is needed" in complaint else [VALUES / "smallest.yaml"]
    assert complaint in render(*base, given, ok=False)


def test_every_value_is_explained_and_in_the_schema():
    text = (CHART / "values.yaml").read_text()
    run(python_tool("check-jsonschema"), "--check-metaschema", CHART / "values.schema.json")
    # Only self-explanatory names have no comment: names of paths and of empty lists.
    assert len(re.findall(r"^ *#", text, re.MULTILINE)) > len(re.findall(r"^[a-z]\w*:", text, re.MULTILINE)) * 3


def test_the_chart_has_the_version_of_the_program():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
