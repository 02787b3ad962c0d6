"""The images of others that deploy/ names, and the audit of packages: what is pinned, by what, and what is not."""

import os
import re
import shutil
import tomllib

import yaml
from conftest import DEPLOY, ROOT, run

DIGEST = "sha256:[0-9a-f]{64}"
# Images that stand in deploy/ by tag alone. Digests are looked up in a registry, which the machines that build and test
# Spindle do not reach: `deploy/image/pin.sh` writes them where there is a network. A line goes when its image is pinned.
BY_TAG = {
    "rust": "builds the program; of it the images get the C library, its loader and the certificates of authorities",
    "node": "builds the pages and fetches the engine, both by lock files with hashes; no image gets anything else of it",
    "apache/kafka": "a service of compose.yaml, for trials",
    "clickhouse/clickhouse-server": "a service of compose.yaml, for trials",
    "prom/prometheus": "a service of compose.yaml, for trials",
    "grafana/grafana": "a service of compose.yaml, for trials",
}


def references(deploy):
    """Every image that is not built here: of the Dockerfile's stages and of the services."""
    dockerfile = (deploy / "Dockerfile").read_text()
    given = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", dockerfile, re.MULTILINE))
    stages = re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE)
    bases = [re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], base) for base in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)]
    services = yaml.safe_load((deploy / "compose.yaml").read_text())["services"].values()
    named = bases + [service["image"] for service in services if "build" not in service]
    return {name for name in named if name not in {"scratch", *stages}}


def test_every_image_of_others_is_pinned_by_digest_or_listed_with_a_reason():
    by_tag = set()
    for reference in references(DEPLOY):
        name, tag, digest = re.fullmatch(rf"([^:@]+):([^:@]+)(?:@({DIGEST}))?", reference).groups()
        assert tag != "latest", reference
        if not digest:
            by_tag.add(name)
    assert by_tag == set(BY_TAG), "an image without a digest has a reason, and one with a digest has none"


def test_the_script_pins_every_image_and_pins_it_again(tmp_path):
    deploy = tmp_path / "deploy"
    deploy.mkdir()
    for name in ["Dockerfile", "compose.yaml"]:
        shutil.copy(DEPLOY / name, deploy)
    tools = tmp_path / "tools"
    tools.mkdir()
    skopeo = tools / "skopeo"
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    for digit in "ab":
        skopeo.write_text(f'#!/bin/sh\nfor last; do :; done\ncase $last in docker://*:*) echo "sha256:$(printf %064d 0 | tr 0 {digit})" ;; esac\n')
        skopeo.chmod(0o755)
        told = run(DEPLOY / "image" / "pin.sh", deploy, env=environment).stdout.split()
        pinned = references(deploy)
        assert pinned == set(told) and len(pinned) == len(BY_TAG)
        assert all(reference.endswith(f"@sha256:{digit * 64}") for reference in pinned)
    skopeo.write_text("#!/bin/sh\necho nothing\n")
    refused = run(DEPLOY / "image" / "pin.sh", deploy, ok=False, env=environment)
    assert refused.returncode != 0 and "no digest" in refused.stderr
    assert references(deploy) == pinned, "a failure changes nothing"


def test_make_test_audits_the_packages_by_the_rules_in_deny_toml():
    makefile = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n)+)", makefile, re.MULTILINE))
    assert re.search(r"\baudit\b", recipes["test"])
    assert re.search(r"\$\(CARGO_DENY\)/bin/cargo-deny .*check .*bans licenses sources", recipes["audit"])
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    assert rules["bans"]["wildcards"] == "deny"
    assert {rules["sources"][kind] for kind in ["unknown-registry", "unknown-git"]} == {"deny"}
    assert "allow-git" not in rules["sources"] and "allow-registry" not in rules["sources"]
