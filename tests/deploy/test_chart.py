"""The Helm chart: values that it takes or refuses, and what it creates from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stormwright import __version__
from tests.deploy.exposed import DEPLOY
from tests.deploy.test_running import LONGEST_MOVE_S, json_of, of_yaml, options_of, the
from tests.deploy.tools import SCHEMAS, needs, needs_schemas, run
from tools.kubernetes_schemas import VERSIONS

CHART = DEPLOY / "helm" / "stormwright"
TEMPLATES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").iterdir()))
VALUES = of_yaml(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
CASES = {path.stem: path for path in sorted((Path(__file__).parent / "values").glob("*.yaml"))}

each_case = pytest.mark.parametrize("case", CASES)

RELEASE, NAMESPACE = "north", "storm"


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all values that are no sections of others."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    else:
        yield path


def test_chart_templates_and_values_match():
    used = set(re.findall(r"\.Values((?:\.\w+)+)", TEMPLATES))
    for path in used:
        value = VALUES
        for key in path.strip(".").split("."):
            assert key in value, f"values.yaml has no {path}"
            value = value[key]
    unused = [leaf for leaf in leaves(VALUES) if not any(leaf == path or leaf.startswith(f"{path}.") for path in used)]
    assert not unused, "nothing reads them"


def test_chart_templates_close_every_block():
    for path in (CHART / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        begun = re.findall(r"\{\{-? *(if|with|range|define) ", text)
        assert len(begun) == len(re.findall(r"\{\{-? *end *-?\}\}", text)), path.name
        assert text.count("{{") == text.count("}}")
    defined = set(re.findall(r'define "([^"]+)"', TEMPLATES))
    assert set(re.findall(r'include "([^"]+)"', TEMPLATES)) == defined


def test_chart_has_package_version_and_valid_options():
    chart = of_yaml(CHART / "Chart.yaml")
    assert (chart["apiVersion"], chart["version"], str(chart["appVersion"])) == ("v2", __version__, __version__)
    assert chart["kubeVersion"] == f">={VERSIONS[0]}-0", "the oldest version that resources are validated with"
    texts = re.findall(r"^ +- (?:\{\{ printf \")?(--[\w-]+=\S*?)\"? ", TEMPLATES.replace("\n", " \n"), flags=re.M)
    options = options_of([option.replace("%s", "observe" if "mode" in option else "nodes") for option in texts])
    assert {"mode", "objective", "scheduler_name", "initial", "storm_home", "pair", "known_as"} <= set(options)
    assert (options["state_dir"], VALUES["stormHome"]) == (the("VOLUME"), options_of(json_of("CMD")[1:])["storm_home"])
    assert f"terminationGracePeriodSeconds: {LONGEST_MOVE_S}" in TEMPLATES


def test_chart_has_same_alert_rules_as_prometheus():
    """Helm reads no files outside of a chart."""
    rules = DEPLOY / "prometheus" / "rules.yaml"
    assert (CHART / "files" / "rules.yaml").read_bytes() == rules.read_bytes(), f"copy {rules} to the chart"


def sections(schema: Mapping[str, Any], values: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Path, schema and value of each section whose keys are fixed."""
    if "properties" in schema:
        yield path, schema, values
        for key, inner in schema["properties"].items():
            if key in values:
                yield from sections(inner, values[key], f"{path}.{key}")


def test_schema_names_exactly_the_values():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for path, schema, values in sections(SCHEMA, VALUES):
        assert schema["additionalProperties"] is False, path
        assert set(schema["properties"]) - {"global"} == set(values), path


def faults(values: Mapping[str, Any]) -> list[str]:
    """Paths of values that the schema refuses."""
    return [error.json_path for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(values)]


def test_schema_allows_default_values():
    assert faults(VALUES) == []


@each_case
def test_schema_allows_values(case):
    assert faults(of_yaml(CASES[case])) == []


def documented_values() -> dict[str, Any]:
    """Values in the docs: those of one service, and those that make it a pair."""
    found: dict[str, Any] = {}
    for page in ("deploy.md", "high-availability.md"):
        text = (DEPLOY.parent / "docs" / page).read_text(encoding="utf-8").partition("## Kubernetes\n")[2]
        found |= yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    return found


def test_schema_allows_documented_values():
    values = documented_values()
    assert faults(values) == []
    assert values["pair"]["enabled"], "both pages were read"


#: Values that are refused, as options of --set, and the path that the refusal names.
WRONG = {
    "mdoe=auto": "$",
    "mode=automatic": "$.mode",
    "pair.enabled=yes": "$.pair.enabled",
    "pair.zookeeper=zk1": "$.pair.zookeeper",
    "pair.knownAs=storm:7070": "$.pair.knownAs",
    "persistence.size=20": "$.persistence.size",
    "tmpSize=1GB": "$.tmpSize",
    "service.port=70700": "$.service.port",
    "nimbus.seeds=nimbus": "$.nimbus.seeds",
    "access.tokensSecret=Not A Name": "$.access.tokensSecret",
}


@pytest.mark.parametrize("assignment", WRONG)
def test_schema_refuses_wrong_value(assignment):
    path, _, text = assignment.partition("=")
    values: Any = int(text) if text.isdigit() else text
    for key in reversed(path.split(".")):
        values = {key: values}
    assert faults(values) == [WRONG[assignment]]


def manifests(case: str, *options: str, release: str = RELEASE) -> str:
    """Text that Helm sends to Kubernetes.

    Parameters
    ----------
    case
        Name of the values.
    *options
        Further options of Helm.
    release
        Name of the release.
    """
    arguments = ("template", release, CHART, "--namespace", NAMESPACE, "--values", CASES[case])
    done = run("helm", *arguments, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(case: str, *options: str) -> list[Any]:
    """Resources that the chart creates from the values of a case."""
    return [each for each in yaml.safe_load_all(manifests(case, *options)) if each]


def of_kind(resources: list[Any], kind: str) -> list[Any]:
    return [each for each in resources if each["kind"] == kind]


def pod_of(resources: list[Any]) -> Any:
    (stateful_set,) = of_kind(resources, "StatefulSet")
    return stateful_set["spec"]["template"]["spec"]


@needs("helm")
@each_case
def test_helm_lint_accepts_chart(case):
    done = run("helm", "lint", "--strict", CHART, "--values", CASES[case])
    assert done.returncode == 0, done.stdout + done.stderr


def validate(text: str, version: str) -> Mapping[str, Any]:
    """The report of kubeconform."""
    names = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
    where = (f"{SCHEMAS}/{{{{ .NormalizedKubernetesVersion }}}}/{names}", f"{SCHEMAS}/crds/{names}")
    options = ["-strict", "-summary", "-output", "json", "-kubernetes-version", version]
    for location in where:
        options += ["-schema-location", location]
    done = run("kubeconform", *options, given=text)
    return json.loads(done.stdout)


@needs("helm")
@needs("kubeconform")
@needs_schemas
@pytest.mark.parametrize("version", VERSIONS)
@each_case
def test_resources_are_valid_in_kubernetes(case, version):
    report = validate(manifests(case), version)
    expected = {"valid": len(template(case)), "invalid": 0, "errors": 0, "skipped": 0}
    assert report["summary"] == expected, report["resources"]


@needs("helm")
@needs("kubeconform")
@needs_schemas
def test_names_that_yaml_takes_for_other_types_stay_text():
    """A release may be called ``n``, and a Secret ``1``."""
    names = ("access.tokensSecret", "access.tlsSecret", "ingress.tlsSecret", "serviceMonitor.tokenSecret", "jaasSecret")
    options = [part for name in names for part in ("--set-string", f"{name}=1")]
    report = validate(manifests("monitoring", *options, release="n"), VERSIONS[-1])
    assert report["summary"]["invalid"] == 0, report["resources"]


@needs("helm")
@needs("kubeconform")
@needs_schemas
@pytest.mark.parametrize("version", VERSIONS)
def test_validation_refuses_misspelt_and_mistyped_fields(version):
    resources = template("monitoring")
    pod_of(resources)["terminationGraceSeconds"] = 5
    of_kind(resources, "Ingress")[0]["spec"]["rules"] = "all"
    of_kind(resources, "ServiceMonitor")[0]["spec"]["endpoint"] = []
    assert validate(yaml.safe_dump_all(resources), version)["summary"]["invalid"] == 3


@needs("helm")
@each_case
def test_container_runs_valid_command(case):
    pod = pod_of(template(case))
    (container,) = pod["containers"]
    options = options_of(container["args"][1:])
    assert container["args"][0] == "serve"
    assert bool(options.get("without_authentication")) != ("tokens_file" in options)
    scheme = "HTTPS" if "tls_cert" in options else "HTTP"
    probes = [container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")]
    assert {probe["scheme"] for probe in probes} == {scheme}


@needs("helm")
@each_case
def test_every_file_of_command_is_mounted(case):
    pod = pod_of(template(case))
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert len(mounts) == len(container["volumeMounts"])
    (stateful_set,) = of_kind(template(case), "StatefulSet")
    claims = [claim["metadata"]["name"] for claim in stateful_set["spec"].get("volumeClaimTemplates", ())]
    volumes = [volume["name"] for volume in pod["volumes"]] + claims
    assert sorted(volumes) == sorted(mounts.values())
    paths = [argument.partition("=")[2] for argument in container["args"] if re.match(r"--[\w-]+=/", argument)]
    paths = [path for path in paths if path != VALUES["stormHome"]]
    assert [path for path in paths if not any(path == mount or path.startswith(f"{mount}/") for mount in mounts)] == []


@needs("helm")
@each_case
def test_pod_has_no_rights_and_writes_to_state_and_tmp_only(case):
    resources = template(case)
    pod = pod_of(resources)
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    for account in of_kind(resources, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
        assert account["metadata"]["name"] == pod["serviceAccountName"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {the("VOLUME"), "/tmp"}  # noqa: S108 (in the pod)
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]


@needs("helm")
def test_pair_has_two_services_with_own_addresses():
    resources = template("pair")
    (stateful_set,) = of_kind(resources, "StatefulSet")
    spec = stateful_set["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (2, "Parallel")
    (container,) = pod_of(resources)["containers"]
    options = options_of(container["args"][1:])
    headless = next(each for each in of_kind(resources, "Service") if each["spec"].get("clusterIP") == "None")
    assert spec["serviceName"] == headless["metadata"]["name"]
    assert options["known_as"] == f"http://$(POD_NAME).{spec['serviceName']}.{NAMESPACE}.svc:7070"
    (pod_name,) = [each for each in container["env"] if each["name"] == "POD_NAME"]
    assert pod_name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert options["pair"] == "storm"
    labels = spec["template"]["metadata"]["labels"].items()
    for each in of_kind(resources, "PodDisruptionBudget"):
        assert each["spec"]["maxUnavailable"] == 1
        assert each["spec"]["selector"]["matchLabels"].items() <= labels
    assert len(of_kind(resources, "PodDisruptionBudget")) == 1
    # A Nimbus elsewhere reaches each of them.
    own = [each["spec"] for each in of_kind(resources, "Service") if each["spec"].get("type") == "LoadBalancer"]
    pods = {each["selector"].get("statefulset.kubernetes.io/pod-name") for each in own}
    name = stateful_set["metadata"]["name"]
    assert pods == {None, f"{name}-0", f"{name}-1"}


@needs("helm")
def test_documented_values_and_addresses_are_those_of_chart(tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(documented_values()), encoding="utf-8")
    done = run("helm", "install", "stormwright", CHART, "--dry-run=client", "--namespace", "storm", "--values", values)
    assert done.returncode == 0, done.stderr
    (urls,) = re.findall(r'stormwright\.service\.url: ".*"', done.stdout.partition("NOTES:")[2])
    assert urls in (DEPLOY.parent / "docs" / "high-availability.md").read_text(encoding="utf-8")


@needs("helm")
@each_case
def test_only_a_pair_has_more_than_one_service(case):
    resources = template(case)
    (stateful_set,) = of_kind(resources, "StatefulSet")
    options = options_of(pod_of(resources)["containers"][0]["args"][1:])
    assert stateful_set["spec"]["replicas"] == (2 if "pair" in options else 1)
    assert len(of_kind(resources, "PodDisruptionBudget")) == (1 if "pair" in options else 0)


@needs("helm")
def test_storm_yaml_has_nimbus_and_jaas_file():
    resources = template("pair")
    (config,) = of_kind(resources, "ConfigMap")
    conf = yaml.safe_load(config["data"]["storm.yaml"])
    assert conf == {
        "nimbus.seeds": ["nimbus"],
        "nimbus.thrift.port": 6627,
        "java.security.auth.login.config": "/jaas/jaas.conf",
        "storm.zookeeper.servers": ["zookeeper.storm"],
        "storm.zookeeper.port": 2181,
    }
    assert not of_kind(template("tls"), "ConfigMap"), "the Secret is the whole file"


@needs("helm")
def test_monitoring_selects_each_pod_once_and_labels_it_as_rules_expect():
    resources = template("monitoring", "--set", "clusterName=lab")
    (monitor,) = of_kind(resources, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [each for each in of_kind(resources, "Service") if wanted <= each["metadata"]["labels"].items()]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert (endpoint["scheme"], endpoint["path"]) == ("https", "/metrics")
    assert {each["targetLabel"]: each["replacement"] for each in endpoint["relabelings"]} == {
        "job": "stormwright",
        "cluster": "lab",
    }
    (rule,) = of_kind(resources, "PrometheusRule")
    assert rule["spec"] == of_yaml(DEPLOY / "prometheus" / "rules.yaml")
    (ingress,) = of_kind(resources, "Ingress")
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]


@needs("helm")
@pytest.mark.parametrize("assignment", WRONG)
def test_helm_refuses_wrong_value_and_names_it(assignment):
    done = run("helm", "template", RELEASE, CHART, "--values", CASES["tokens"], "--set", assignment)
    assert done.returncode != 0
    assert WRONG[assignment].removeprefix("$").replace(".", "/") in done.stderr


#: Values that do not fit together, as options of --set, and the value to correct.
UNFIT = {
    "access.tokensSecret=": "access.tokensSecret",
    "access.withoutAuthentication=true": "access.withoutAuthentication",
    "access.clientCertificates=true": "access.clientCertificates",
    "pair.enabled=true,pair.zookeeper=zk:2181": "pair.secret",
    "pair.enabled=true,pair.secret=p": "pair.zookeeper",
    "pair.enabled=true,pair.zookeeper=zk:2181,pair.secret=p,pair.knownAs=http://storm:7070": "pair.knownAs",
    "ingress.enabled=true": "ingress.host",
    "serviceMonitor.enabled=true": "serviceMonitor.tokenSecret",
    r"stormConf.nimbus\.thrift\.tls\.client\.keystore\.password=secret": "stormConf",
    r"stormYamlSecret=s,stormConf.ui\.port=8080": "stormConf",
}


@needs("helm")
@pytest.mark.parametrize("assignment", UNFIT)
def test_helm_refuses_values_that_do_not_fit_together(assignment):
    done = run("helm", "template", RELEASE, CHART, "--values", CASES["tokens"], "--set", assignment)
    assert done.returncode != 0
    assert f": {UNFIT[assignment]}: " in done.stderr


@needs("helm")
@pytest.mark.parametrize("case", ["tokens", "pair"])
def test_notes_have_addresses_for_storm_yaml(case):
    arguments = ("install", RELEASE, CHART, "--dry-run=client", "--namespace", NAMESPACE, "--values", CASES[case])
    done = run("helm", *arguments)
    assert done.returncode == 0, done.stderr
    (urls,) = re.findall(r'stormwright\.service\.url: "(.*)"', done.stdout.partition("NOTES:")[2])
    name = f"{RELEASE}-stormwright"
    if case == "tokens":
        assert urls == f"http://{name}.{NAMESPACE}.svc:7070"
    else:
        assert urls == ",".join(f"http://{name}-{n}.{name}-pods.{NAMESPACE}.svc:7070" for n in (0, 1))
