# Every target does its own set-up; `make setup` is that set-up alone.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON := .venv/bin/python
STAMP := .venv/.holdfast-ready

# Some machines forbid it; then each of some hundred short processes of the tests would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo kafka-example docs unit test long lint bench bench-peers simulate torture doctor-real compat recording screenshots clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml scripts/setup hatch_build.py $(wildcard src/jvm/holdfast/*.java)
	scripts/setup
	touch $@

demo: setup
	.venv/bin/holdfast demo

# A broker, a producer, and a job that falls behind and catches up. Maven fetches broker and connector.
kafka-example: setup
	$(PYTHON) scripts/kafka_example.py

# No Spark, no server: while you write.
unit: setup
	$(PYTHON) -m pytest -n 2 -m "not long" tests/unit tests/doctor

# Which tests stay in one process, and in which order: tests/conftest.py. Much of their time they wait for something.
test: setup
	$(PYTHON) -m pytest -n 3 --no-loadscope-reorder -m "not long" --durations=25

# The built package in environments of its own; what is shown by something shorter in `make test`; more worlds.
long: setup
	$(PYTHON) -m pytest -n 3 --no-loadscope-reorder -m long --durations=25
	$(PYTHON) -m tests.simulation.simulate --first 200 --seeds 1800

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: setup
	$(PYTHON) -m bench

# The same pipelines on Flink, plain Spark and holdfast, also under faults; records and docs/comparison.md. Some hours.
PEERS ?=
bench-peers: setup
	$(PYTHON) -m bench.peers $(PEERS)

SEEDS ?= 1000
simulate: setup
	$(PYTHON) -m tests.simulation.simulate --seeds $(SEEDS)

torture: setup
	HOLDFAST_OUTAGE=120 HOLDFAST_SLOW=2 $(PYTHON) -m pytest -o timeout=1800 tests/end_to_end/test_store_in_trouble.py tests/end_to_end/test_alarms_reach_people.py tests/end_to_end/test_kafka_offsets.py
	HOLDFAST_KILLS=50 $(PYTHON) -m pytest tests/end_to_end/test_operators.py tests/end_to_end/test_sources.py tests/end_to_end/test_survives_kills.py tests/end_to_end/test_crash_points.py
	HOLDFAST_KILLS=50 $(PYTHON) -m pytest tests/end_to_end/test_corruption.py tests/spark/test_corruption.py tests/spark/test_snapshot.py tests/simulation/test_planted_bugs.py
	HOLDFAST_KILLS=50 $(PYTHON) -m pytest tests/end_to_end/test_following_logs.py tests/stores/test_hdfs_work.py tests/cluster
	HOLDFAST_KILLS=15 $(PYTHON) -m pytest tests/end_to_end/test_own_writer_kills.py tests/end_to_end/test_own_tables_go_back.py tests/end_to_end/test_adopted_queries.py
	HOLDFAST_KILLS=30 $(PYTHON) -m pytest tests/end_to_end/test_protected_queries.py
	$(PYTHON) -m tests.kills --minutes 60
	$(PYTHON) -m tests.endurance --checkpoints 1000
	HOLDFAST_RESTARTS=30 HOLDFAST_RESTART_PARTITIONS=200 $(PYTHON) -m pytest tests/spark/test_restarts_in_a_row.py

# Flink and Spark jobs broken on purpose; their logs, trimmed, in DOCTOR_LOGS. Needs the right to mount a tmpfs.
DOCTOR_LOGS ?= /tmp/holdfast-doctor-logs
doctor-real: setup
	$(PYTHON) -m tests.doctor.real.spark_runs $(DOCTOR_LOGS)
	$(PYTHON) -m tests.doctor.real.flink_runs $(DOCTOR_LOGS)
	HOLDFAST_DOCTOR_LOGS=$(DOCTOR_LOGS) $(PYTHON) -m pytest tests/doctor/test_real_runs.py

# Every query under every supported PySpark, and checkpoints of one version under newer ones: docs/versions.md.
compat: setup
	$(PYTHON) -m tests.compat $(COMPAT)

# docs/what-you-see.md: a start, a kill, an outage and a stop as they stand on a terminal.
recording: setup
	$(PYTHON) scripts/record_what_you_see.py

# docs/images: every page of the dashboard in a real Chromium.
screenshots: setup
	$(PYTHON) -m scripts.screenshots

# The documentation site in site/, with search; it fetches nothing. A link that leads nowhere ends the build.
docs: setup
	$(PYTHON) scripts/generate_docs.py
	$(PYTHON) scripts/build_site.py

clean:
	rm -rf .venv .compat .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
