"""Compares what trackers hold with a run's metrics file.

usage: trackers_check.py METRICS.jsonl KIND WHERE    KIND: csv, standin, mlflow, tensorboard, wandb, synced, trackio

A value of the file is that of the last line with its batch, and every number of it must be at the tracker, equal
(TensorBoard has floats). WHERE: a table, the file of mlflow_server.py, URI@RUN_NAME, a folder of events, a W&B run
file, the file of wandb_server.py, a database of trackio.
"""

import csv
import glob
import json
import math
import sqlite3
import struct
import sys
import zlib


def of_file(path):
    """{name: {batch: value}} of a metrics file."""
    values = {}
    with open(path) as file:
        for line in file:
            record = json.loads(line)
            for name, value in record.items():
                if not isinstance(value, str) and value is not None:
                    values.setdefault(name, {})[record["time/batch"]] = value
    return values


def of_csv(path):
    values = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value and name != "time/remaining_estimate_unit":
                    values.setdefault(name, {})[int(row["time/batch"])] = float(value)
    return values


def of_standin(path):
    with open(path) as file:
        state = json.load(file)
    (run,) = state["runs"].values()
    assert run["status"] == "FINISHED", run["status"]
    return {name: {step: value for step, _, value in rows} for name, rows in run["metrics"].items()}


def of_mlflow(where):
    import mlflow
    uri, name = where.rsplit("@", 1)
    client = mlflow.MlflowClient(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"run_name = '{name}'")
    assert run.info.status == "FINISHED", run.info.status
    assert run.data.params["model.d_model"] == "48", run.data.params
    return {name: {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}
            for name in run.data.metrics}


def of_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in events.Tags()["scalars"]}


def wandb_records(path):
    """The records of a file of W&B's client: LevelDB's log format after a header of seven bytes."""
    from wandb.proto import wandb_internal_pb2
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == b":W&B", "no header"
    position, block, whole = 7, 32768, b""
    while position + 7 <= len(data):
        if block - position % block < 7:  # the rest of a block is blank
            position += block - position % block
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, position)
        piece = data[position + 7:position + 7 + length]
        assert kind in (1, 2, 3, 4) and zlib.crc32(data[position + 6:position + 7] + piece) == checksum
        position += 7 + length
        whole += piece
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def of_wandb(pattern):
    (path,) = glob.glob(pattern)
    values = {}
    exits = []
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "exit":
            exits.append(record.exit.exit_code)
        if record.WhichOneof("record_type") != "history":
            continue
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for name, value in row.items():
            if isinstance(value, (int, float)) and not name.startswith("_"):
                values.setdefault(name, {})[row.get("_step", record.history.step.num)] = value
    assert exits == [0], exits
    return values


def of_synced(path):
    with open(path) as file:
        state = json.load(file)
    (run,) = state["runs"].values()
    assert run["exitcode"] == 0, run["exitcode"]
    assert run["config"]["model"]["value"]["d_model"] == 48, run["config"]
    values = {}
    for row in run["history"]:
        for name, value in row.items():
            if isinstance(value, (int, float)) and not name.startswith("_"):
                values.setdefault(name, {})[row["_step"]] = value
    return values


def of_trackio(path):
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    assert len({run for run, _, _ in rows}) == 1, {run for run, _, _ in rows}
    values = {}
    for _, step, metrics in rows:
        for name, value in json.loads(metrics).items():
            if isinstance(value, (int, float)):
                assert step not in values.setdefault(name, {}), f"{name} of batch {step} is there twice"
                values[name][step] = value
    return values


def main():
    path, kind, where = sys.argv[1:4]
    expected = of_file(path)
    found = globals()["of_" + kind](where)
    count = 0
    for name, batches in expected.items():
        for batch, value in batches.items():
            other = found.get(name, {}).get(batch)
            assert other is not None, f"{kind}: {name} of batch {batch} is missing"
            same = other == value or math.isclose(other, value, rel_tol=1e-6 if kind == "tensorboard" else 0)
            assert same or (kind == "tensorboard" and abs(value) < 1e-37), f"{kind}: {name} of {batch}: {other} is not {value}"
            count += 1
    more = set(found) - set(expected)
    assert not more, f"{kind}: {more} is not in the metrics file"
    print(f"{kind}: {count} numbers under {len(expected)} names are those of the metrics file")


if __name__ == "__main__":
    main()
