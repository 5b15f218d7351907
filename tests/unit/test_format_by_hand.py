"""docs/format.md is enough to restore a checkpoint without holdfast: in plain Python, and by the page's own script."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from blake3 import blake3

from holdfast.checkpoint.manifest import Manifest, ManifestFile, ManifestShard, digest_of
from holdfast.identifiers import AttemptId, CheckpointId, Digest, FencingEpoch, Sequence
from holdfast.repository import entries, ownership
from holdfast.repository.blobs import Blobs
from holdfast.repository.chain import fold_key, read_entries
from holdfast.repository.entry_bytes import encode_fold
from holdfast.repository.journal import entry_key
from holdfast.repository.state import JobState
from tests.unit.chained import chained
from tests.unit.test_relocation import SCHEMA, description
from tests.unit.work_files import EPOCH, MIB, copied, manifest_of, new_store, stored, tree, write

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
SCRIPT = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)[-1]
CONTENTS = {
    "metadata": b"{}",
    "commits/12": b"v1\n{}",
    "state/0/0/13.zip": os.urandom(5000),
    "state/0/0/SSTs/a b.sst": os.urandom(MIB + 1),
    "state/0/0/empty": b"",
    "state/0/_metadata/v2/0": description(f"file:/old/state/0/place{SCHEMA}"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Four checkpoints with different contents; the newest two are retired and corrupt."""
    store = new_store(tmp_path / "home")
    blobs = Blobs(store, EPOCH)
    work = tmp_path / "work"
    common = {"attempt": AttemptId("a"), "fencing_epoch": EPOCH, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    digests = []
    for number in range(1, 5):
        write(work, CONTENTS if number == 2 else {"commits/12": f"v1\n{number}".encode()})
        digests.append(stored(store, manifest_of(copied(work, blobs), number)))
    journal: list[entries.AnyEntry] = [completed(number, digest, common) for number, digest in enumerate(digests, 1)]
    journal.append(entries.CheckpointsRetired(sequence=Sequence(5), ids=(CheckpointId(4),), **common))
    journal.append(entries.CheckpointCorrupt(sequence=Sequence(6), id=CheckpointId(3), detail="", **common))
    found = {"detail": "", "passed_over": False}
    journal.append(entries.CheckpointCorrupt(sequence=Sequence(7), id=CheckpointId(2), **found, **common))
    journal.append(entries.CheckpointRepaired(sequence=Sequence(8), id=CheckpointId(2), detail="", **common))
    journal.append(entries.CheckpointRepaired(sequence=Sequence(9), id=CheckpointId(3), detail="", **common))
    linked = chained(journal)
    fold = encode_fold(Sequence(5), linked[:5])
    store.create(fold_key(5), fold)
    official = entries.JournalFolded(sequence=Sequence(10), upto=Sequence(5), digest=digest_of(fold), **common)
    for item in [*linked[3:], *chained([official], linked[-1])]:
        store.create(entry_key(item.sequence), item.data)
    store.create(fold_key(3), b"of an attempt that never became official")
    assert JobState.of(read_entries(store)).restorable()[0].manifest == digests[1]
    return tmp_path / "home"


def completed(number: int, manifest: Digest, common: dict[str, object]) -> entries.CheckpointCompleted:
    fields = {
        "sequence": number,
        "id": number,
        "checkpoint_kind": "checkpoint",
        "name": None,
        "barrier_batch_id": 12,
        "manifest": manifest,
        "triggered_at": common["at"],
        **dict.fromkeys(("duration_ms", "bytes_total", "bytes_new", "files", "objects_written", "shards"), 0),
    }
    return entries.CheckpointCompleted(**fields, **common)  # type: ignore[arg-type]


def restored_by_hand(home: Path) -> dict[str, bytes]:
    """Reads plain files as docs/format.md says, and knows nothing of holdfast's code."""
    tail = [json.loads(path.read_text()) for path in sorted((home / "journal").iterdir())]
    upto = max(entry["upto"] for entry in tail if entry["kind"] == "journal-folded")
    fold = json.loads((home / "folds" / f"{upto:020d}.json").read_text())
    journal = [*fold["entries"], *(entry for entry in tail if entry["sequence"] > upto)]
    unusable, for_ever = set(), set()
    for entry in journal:
        if entry["kind"] == "checkpoints-retired":
            for_ever.update(entry["ids"])
        elif entry["kind"] == "checkpoint-corrupt":
            (for_ever if entry.get("passed_over", True) else unusable).add(entry["id"])
        elif entry["kind"] == "checkpoint-repaired":
            unusable.discard(entry["id"])
    unusable |= for_ever
    usable = [e for e in journal if e["kind"] == "checkpoint-completed" and e["id"] not in unusable]
    name = max(usable, key=lambda entry: entry["id"])["manifest"]
    packed = (home / "manifests" / name).read_bytes()
    assert blake3(packed).hexdigest() == name
    files = {}
    for shard in json.loads(gzip.decompress(packed))["shards"]:
        for file in shard["files"]:
            digest = file["digest"]
            if "pack" in file:
                pack = (home / "packs" / f"{file['pack']}.{file['epoch']}").read_bytes()
                offset = file.get("offset", 0)
                data = pack[offset : offset + file["size"]]
            else:
                data = (home / "blobs" / digest[:2] / f"{digest}.{file['epoch']}").read_bytes()
            assert blake3(data).hexdigest() == digest
            files[file["path"]] = data
    return files


def test_a_checkpoint_can_be_restored_by_hand(home: Path) -> None:
    assert restored_by_hand(home) == CONTENTS


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_the_script_of_the_page_restores_a_checkpoint(home: Path, tmp_path: Path) -> None:
    done = run_script(home, tmp_path)
    assert done.returncode == 0, done.stderr
    moved = {"state/0/_metadata/v2/0": description(f"file:{tmp_path / 'to'}{SCHEMA}")}
    assert tree(tmp_path / "to") == CONTENTS | moved


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_the_script_of_the_page_stops_at_a_wrong_byte(home: Path, tmp_path: Path) -> None:
    (pack,) = (path for path in (home / "packs").iterdir() if path.stat().st_size >= 5000)
    pack.write_bytes(b"!" * pack.stat().st_size)
    assert run_script(home, tmp_path).returncode != 0


def run_script(home: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    path = os.environ["PATH"]
    if not shutil.which("b3sum"):
        path = f"{b3sum_stand_in(tmp_path / 'bin')}:{path}"
    environment = {"PATH": path, "HOME_DIRECTORY": str(home.parent), "JOB": home.name, "TO": str(tmp_path / "to")}
    return subprocess.run(["bash", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)


def b3sum_stand_in(folder: Path) -> Path:
    """`b3sum --check --quiet` for machines without it."""
    folder.mkdir()
    program = folder / "b3sum"
    program.write_text(
        f"#!{sys.executable}\nimport sys, blake3\n"
        "for line in sys.stdin:\n"
        "    digest, name = line.rstrip('\\n').split('  ', 1)\n"
        "    if blake3.blake3(open(name, 'rb').read()).hexdigest() != digest:\n"
        "        sys.exit(f'{name}: FAILED')\n"
    )
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("kind", get_args(entries.AnyEntry))
def test_the_page_names_every_entry_and_its_fields(kind: type[entries.Entry]) -> None:
    tag = msgspec.inspect.type_info(kind).tag  # type: ignore[attr-defined]
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{tag}` |"))
    common = set(entries.Entry.__struct_fields__)
    assert [field for field in kind.__struct_fields__ if field not in common and f"`{field}`" not in row] == []


@pytest.mark.parametrize(
    "kind",
    [
        entries.Entry,
        entries.Process,
        entries.PhaseDuration,
        entries.ShardSummary,
        entries.Failure,
        Manifest,
        ManifestShard,
        ManifestFile,
        ownership.Heartbeat,
    ],
)
def test_the_page_names_every_field(kind: type[msgspec.Struct]) -> None:
    assert [field for field in kind.__struct_fields__ if f"`{field}`" not in PAGE] == []


def test_the_page_shows_the_names_of_the_objects() -> None:
    file = ManifestFile("f", 1, Digest("ab" * 32), FencingEpoch(7))
    assert file.key == f"blobs/ab/{'ab' * 32}.7"
    assert "blobs/<aa>/<digest>.<epoch>" in PAGE
    assert "packs/<digest>.<epoch>" in PAGE
    assert entry_key(1) in PAGE
