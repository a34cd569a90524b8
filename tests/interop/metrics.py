"""What `cairn stats --openmetrics` prints, read by Prometheus's own parser, against `cairn stats --json`.

usage: metrics.py WORK_DIRECTORY CAIRN PACKAGE
PACKAGE: the folder of Cairn's Python package, or none.
"""
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from prometheus_client.openmetrics.parser import text_string_to_metric_families

work, tool, package = Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3]
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)


def told(*words):
    return subprocess.run([tool, "stats", *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def gauges(directory, *words):
    """Samples by name, and by the labels that distinguish those of one name."""
    found = {}
    for family in text_string_to_metric_families(told(directory, "--openmetrics", *words)):
        assert family.type == "gauge" and family.documentation.endswith("."), family
        assert family.unit in ("", "seconds", "bytes"), family
        assert family.unit or not family.name.endswith(("seconds", "bytes")), family
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("directory") == str(directory), sample
            key = (sample.name.removeprefix("cairn_"), *sorted(labels.values()))
            assert key not in found, sample
            found[key] = sample.value
    return found


def check_empty():
    empty = work / "empty"
    empty.mkdir()
    assert gauges(empty) == {}


def check_file():
    """Checks the file that a manager writes for monitors after each save."""
    sys.path.insert(0, package)
    import cairn
    directory, file = work / "watched", work / "cairn.prom"
    state = {"u": np.arange(1000.0)}
    with cairn.CheckpointManager(directory, metrics=str(file)) as manager:
        assert not file.exists()
        for step, failures in (4, 0), (9, 0), (9, 1):
            try:
                manager.save(step, state)
            except cairn.Error:
                assert failures
            families = {one.name: one for one in text_string_to_metric_families(file.read_text())}
            values = {name.removeprefix("cairn_"): one.samples[0].value for name, one in families.items()}
            assert values["newest_step"] == step and values["manager_failures"] == failures, values
            assert values["save_failures"] == failures
            assert "work_at_risk_seconds" not in values, "it would be wrong when it is read"
        assert values["manager_saves"] == 2 and values["manager_written_bytes"] >= 2 * 8000, values
        for name in "saves", "failures", "written_bytes", "blocked_seconds":
            family = families[f"cairn_manager_{name}"]
            assert family.type == "counter" and family.samples[0].name.endswith("_total"), family
    assert sorted(one.name for one in work.glob("cairn.prom*")) == ["cairn.prom"]
    with cairn.CheckpointManager(directory, metrics=str(work / "nowhere" / "cairn.prom")) as manager:
        manager.save(10, state)  # this one needs no metrics


def check_saves():
    sys.path.insert(0, package)
    import cairn
    # A name that the format must escape.
    directory = work / 'a "run"\\ of\nmine'
    for name, steps in ("ckpt", (3, 8)), ("other", (5,)):
        with cairn.CheckpointManager(directory, name=name) as manager:
            for step in steps:
                manager.save(step, {"u": np.arange(1000.0)})
            try:
                manager.save(steps[-1], {"u": np.arange(1000.0)})  # it is there
            except cairn.Error:
                pass
            else:
                raise AssertionError("saved twice")
    found = gauges(directory)
    said = json.loads(told(directory, "--json"))
    for name, step, number in ("ckpt", 8, 2), ("other", 5, 1):
        newest, = (one for one in said["checkpoints"]
                   if one["step"] == step and f"{name}-" in one["prefix"])
        save = newest["statistics"]
        assert found["checkpoints", name] == number
        assert found["newest_step", name] == step
        assert found["newest_timestamp_seconds", name] == newest["time_seconds"]
        assert found["newest_ranks", name] == 1
        assert found["save_bytes", name] == save["bytes"] == 8000
        assert found["save_duration_seconds", name] == save["total_seconds"] > 0
        assert found["save_blocked_seconds", name] == save["blocked_seconds"]
        for stage in "wait", "plan", "capture", "write", "merge":
            took = found["save_stage_seconds", *sorted((name, stage))]
            assert took == save[stage + "_seconds"], stage
        assert found["save_slowest_rank", name] == 0
        failure = [one for one in said["failures"] if one["name"] == name]
        assert found["save_failures", name] == sum(one["failures"] for one in failure)
        for lost in "nodes", "processes":
            assert 0 <= found["work_at_risk_seconds", *sorted((name, lost))] < 3600
    (directory / "other-5.index").unlink()
    assert gauges(directory)["checkpoints", "ckpt"] == 2
    for file in directory.glob("ckpt-8.data*"):
        file.unlink()
    damaged = gauges(directory)
    assert damaged["newest_step", "ckpt"] == 3 and damaged["checkpoints", "ckpt"] == 1
    for file in directory.glob("ckpt-3.data*"):
        file.unlink()
    none = gauges(directory)
    assert none["checkpoints", "ckpt"] == 0 and ("newest_step", "ckpt") not in none
    assert math.isinf(none["work_at_risk_seconds", "ckpt", "nodes"])


check_empty()
if package != "none":
    check_saves()
    check_file()
print("what monitors read is what was saved")
