"""The files in deploy/ are what Kubernetes and systemd accept, and agree with the product that they start."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import holdfast
from holdfast import errors
from holdfast.cli.main import main
from holdfast.repository.ownership import MISSED_BEATS
from holdfast.runtime.run.loop import POLL_S
from holdfast.settings import Settings, seconds
from holdfast.spark.stop_signals import LEAVING_S
from holdfast.spark.watchdog import Watchdog
from holdfast.workdir.factory import local_place

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = ("1.37", "1.27")
"""The newest that the schemas know, and the first in which every field that is used is on by default."""


def below(folder: str = "", pattern: str = "*.yaml") -> list[dict[str, Any]]:
    return [
        found for path in sorted((DEPLOY / "kubernetes" / folder).rglob(pattern)) for found in parsed(path.read_text())
    ]


def documents() -> list[dict[str, Any]]:
    """What Kubernetes knows by itself."""
    return [document for document in below() if document["kind"] != "SparkApplication"]


def the(kind: str, pattern: str = "orders.yaml") -> dict[str, Any]:
    (found,) = (document for document in below(pattern=pattern) if document["kind"] == kind)
    return found


def parsed(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def named(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def require_valid(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


@pytest.fixture(scope="module")
def stateful_set() -> dict[str, Any]:
    return the("StatefulSet")


@pytest.fixture(params=["StatefulSet", "Deployment"])
def workload(request: pytest.FixtureRequest) -> dict[str, Any]:
    return the(request.param)


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("document", documents(), ids=named)
def test_a_manifest_is_what_kubernetes_accepts(document: dict[str, Any], version: str) -> None:
    require_valid(document, version)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("replicas: 1", "replicas: one"),
        ("terminationGracePeriodSeconds: 150", "terminationGracePeriod: 150"),
        ("image: holdfast:0.2.0", "imagePullPolicy: Always\n          imge: holdfast:0.2.0"),
        ("            - name: HOLDFAST_JOB\n              value: orders", "            - value: orders"),
        ("periodSeconds: 30", "periodSeconds: 30s"),
        ("  serviceName: orders", "  service: orders"),
    ],
)
def test_a_broken_manifest_is_not(right: str, wrong: str) -> None:
    """Wrong types, unknown and missing fields, at every depth."""
    text = (DEPLOY / "kubernetes" / "orders.yaml").read_text()
    assert right in text
    broken = next(document for document in parsed(text.replace(right, wrong)) if document["kind"] == "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        require_valid(broken, KUBERNETES[0])


def test_the_pods_name_is_the_identity_of_the_one_replica(stateful_set: dict[str, Any]) -> None:
    (container,) = pod_of(stateful_set)["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert variables["HOLDFAST_IDENTITY"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert stateful_set["spec"]["replicas"] == 1


def test_what_a_pod_mounts_exists(stateful_set: dict[str, Any]) -> None:
    pod = pod_of(stateful_set)
    (container,) = pod["containers"]
    claims = {document["metadata"]["name"] for document in documents() if document["kind"] == "PersistentVolumeClaim"}
    used = {v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v}
    assert used == claims
    own = {template["metadata"]["name"] for template in stateful_set["spec"]["volumeClaimTemplates"]}
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]} | own


def test_holdfast_understands_the_pods_command(
    workload: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (container,) = pod_of(workload)["containers"]
    file = tmp_path / "orders.py"
    file.write_text("def orders(spark): ...\n")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{tmp_path}/home")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_JOB", "orders")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    given: dict[str, Any] = {}
    monkeypatch.setattr(holdfast, "run", lambda build, **options: given.update(options), raising=False)
    assert main([argument.replace("/pipelines/orders.py", str(file)) for argument in container["args"]]) == 0
    assert given["job"] == "orders"
    work = given["settings"].work
    assert work == ("/work" if workload["kind"] == "StatefulSet" else "s3a://bucket/work")
    grace = pod_of(workload)["terminationGracePeriodSeconds"]
    assert grace > given["settings"].stop_timeout_s + LEAVING_S, "holdfast ends by itself, and says how"
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        program, *probe = container[kind]["exec"]["command"]
        assert (program, main(probe)) == ("holdfast", 1), "nothing lives"
        told = probe[probe.index("--work") + 1] if "--work" in probe else None
        assert local_place(told, "s3://b/h") == local_place(work, "s3://b/h"), "where the run writes how it is"
        assert "--live" in probe, "no journal is read for it"
        assert ("--health" in probe) == (kind == "readinessProbe"), "an alarm restarts nothing"


def test_a_deployment_never_waits_for_a_second_owner_to_be_ready() -> None:
    rolling = the("Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    (container,) = pod_of(the("Deployment"))["containers"]
    names = {variable["name"] for variable in container["env"]}
    assert "HOLDFAST_IDENTITY" not in names, "two pods of it may live at the same time"
    used = {name for argument in container["args"] for name in re.findall(r"\$\((\w+)\)", argument)}
    assert used <= names
    assert "spark.driver.host=$(POD_IP)" in container["args"], "a service may lead executors to the pod before"


def test_accounts_and_roles_exist() -> None:
    folder = below("executors")
    accounts = {each["metadata"]["name"] for each in folder if each["kind"] == "ServiceAccount"}
    (binding,) = (each for each in folder if each["kind"] == "RoleBinding")
    (role,) = (each for each in folder if each["kind"] == "Role")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    application = the("SparkApplication")["spec"]
    used = {subject["name"] for subject in binding["subjects"]} | {pod_of(the("Deployment"))["serviceAccountName"]}
    used |= {application[part]["serviceAccount"] for part in ("driver", "executor")}
    (container,) = pod_of(the("Deployment"))["containers"]
    executors = "spark.kubernetes.authenticate.executor.serviceAccountName="
    used |= {value.removeprefix(executors) for value in container["args"] if value.startswith(executors)}
    assert used == accounts


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_operators_application_is_stopped_before_its_jvm_is_told(version: str, tmp_path: Path) -> None:
    """Under spark-submit SIGTERM is a crash. The operator's own fields were checked once with its definition."""
    application = the("SparkApplication")
    driver = application["spec"]["driver"]
    settings = Settings()
    assert driver["terminationGracePeriodSeconds"] > settings.stop_timeout_s + LEAVING_S
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": application["metadata"],
        "spec": {
            "serviceAccountName": driver["serviceAccount"],
            "terminationGracePeriodSeconds": driver["terminationGracePeriodSeconds"],
            "containers": [{"name": "driver", "env": driver["env"], "lifecycle": driver["lifecycle"]}],
        },
    }
    require_valid(pod, version)
    program, *stop = driver["lifecycle"]["preStop"]["exec"]["command"]
    (tmp_path / "home").mkdir()
    assert (program, main([*stop, "--home", f"file://{tmp_path}/home"])) == ("holdfast", 3), "there is no such job"
    variables = {variable["name"]: variable["value"] for variable in driver["env"]}
    assert variables["HOLDFAST_IDENTITY"] == f"{application['metadata']['name']}-driver", "the pod that it makes"


def test_a_pod_is_not_restarted_before_the_run_itself_would_call_it_dead(workload: dict[str, Any]) -> None:
    (container,) = pod_of(workload)["containers"]
    probe = container["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > Settings().heartbeat_s * MISSED_BEATS


# --- a sidecar ---


@pytest.fixture
def sidecar() -> dict[str, Any]:
    return pod_of(the("Deployment", "protect.yaml"))


def test_the_sidecar_can_only_read_what_the_query_writes(sidecar: dict[str, Any]) -> None:
    query, protect = sidecar["containers"]
    (written,) = query["volumeMounts"]
    (read,) = [mount for mount in protect["volumeMounts"] if mount["name"] == written["name"]]
    assert read == {**written, "readOnly": True}
    assert protect["args"][1].startswith(written["mountPath"])
    assert protect["args"][1] in query["args"]


def test_holdfast_understands_the_sidecars_command(
    sidecar: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    protect = sidecar["containers"][1]
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{tmp_path}/home")
    monkeypatch.setenv("HOLDFAST_JOB", "clicks")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    arguments = [argument.replace("/checkpoints/clicks", str(tmp_path / "cp")) for argument in protect["args"]]
    assert main([*arguments, "--once"]) == 3, "there is no query yet, which is what it says"
    assert "it has no file metadata" in capsys.readouterr().err
    assert sidecar["terminationGracePeriodSeconds"] > Settings().stop_timeout_s + LEAVING_S
    for kind in ("startupProbe", "livenessProbe"):
        program, *probe = protect[kind]["exec"]["command"]
        assert (program, main(probe)) == ("holdfast", 1), "nothing lives"
    probe = protect["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > Settings().heartbeat_s * MISSED_BEATS


# --- systemd ---

UNITS = ("holdfast@orders", "holdfast-protect@orders")


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit with a program that exists here: systemd looks for it."""
    name = request.param.replace("@orders", "@.service")
    text = (DEPLOY / "systemd" / name).read_text()
    program = Path(sys.executable).with_name("holdfast")
    path = tmp_path / name
    path.write_text(text.replace("/opt/holdfast/bin/holdfast", str(program)))
    return path


def complaints(unit: Path) -> str:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    command = [analyze, "verify", str(unit.with_name(unit.name.replace("@.", "@orders.")))]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    return verified.stderr if verified.returncode == 0 else f"exit {verified.returncode}: {verified.stderr}"


def test_systemd_accepts_the_unit(unit: Path) -> None:
    assert complaints(unit) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("TimeoutStopSec=150s", "TimeoutStopSec=x"),
        ("RestartSec=15s", "RestartSec=soon"),
        ("StateDirectory=", "StateDir="),
    ],
)
def test_systemd_complains_about_a_broken_one(unit: Path, right: str, wrong: str) -> None:
    assert right in unit.read_text()
    unit.write_text(unit.read_text().replace(right, wrong))
    assert complaints(unit) != ""


@pytest.fixture(params=UNITS)
def service(request: pytest.FixtureRequest) -> configparser.SectionProxy:
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(DEPLOY / "systemd" / request.param.replace("@orders", "@.service"))
    return read["Service"]


def test_the_unit_gives_the_last_checkpoint_its_time_and_its_jvm(service: configparser.SectionProxy) -> None:
    assert service.get("KillMode") == ("mixed" if " run " in service["ExecStart"] else None)
    assert seconds("TimeoutStopSec", service["TimeoutStopSec"]) > Settings().stop_timeout_s + LEAVING_S


def test_the_unit_listens_to_the_loop_and_waits_longer_than_it_is_ever_silent(
    service: configparser.SectionProxy,
) -> None:
    """It speaks four times in that time, and looks around five times a second."""
    assert service["NotifyAccess"] == "main", "holdfast itself, and not the JVM"
    limit = seconds("WatchdogSec", service["WatchdogSec"])
    spoken = Watchdog.of({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": str(int(limit * 1e6))}, 1)
    assert limit / 3 > spoken.interval > 10 * POLL_S


def test_what_would_fail_again_is_not_restarted(service: configparser.SectionProxy) -> None:
    final = {errors.InvalidSettings, errors.NotFound, errors.Corrupt, errors.OwnedByAnotherRun, errors.Fenced}
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == {kind.exit_code for kind in final}
    assert {kind.exit_code for kind in all_errors()} - {kind.exit_code for kind in final} == {1, 6}


def all_errors() -> Iterator[type[errors.HoldfastError]]:
    pending = [errors.HoldfastError]
    while pending:
        kind = pending.pop()
        yield kind
        pending += kind.__subclasses__()


def test_the_units_options_are_options_of_run(service: configparser.SectionProxy) -> None:
    command = service["ExecStart"].split()
    assert command[:2] in (["/opt/holdfast/bin/holdfast", "run"], ["/opt/holdfast/bin/holdfast", "protect"])
    options = [word for word in command if word.startswith("--")]
    assert {option.removeprefix("--") for option in options} <= {field.name for field in fields(Settings)}
