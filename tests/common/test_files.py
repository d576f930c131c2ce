"""Outputs: whole or not at all, in the place of files alone, with their modes and owners."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.common.files import check_output, check_suffix, replacing, write_text

ROOT = os.geteuid() == 0
SOMEBODY = 12_345


def device(path: Path) -> None:
    if not ROOT:
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # another /dev/null


def bound_socket(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


IN_THE_WAY: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a socket": bound_socket,
    "a device": device,
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
def test_only_files_are_replaced(kind, linked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = tmp_path / "thing"
    IN_THE_WAY[kind](thing)
    before = os.stat(thing)
    path = tmp_path / "link" if linked else thing
    if linked:
        path.symlink_to("thing")
    names = sorted(os.listdir())
    for attempt in (check_output, lambda path: write_text(path, "x")):
        with pytest.raises(OSError, match=f"is {kind}, and only a file is replaced") as caught:
            attempt(path)
        assert caught.value.filename == os.fspath(path)
    assert os.stat(thing) == before
    assert sorted(os.listdir()) == names


def test_what_comes_into_the_way_meanwhile_is_not_replaced_either(tmp_path):
    path = tmp_path / "x"
    with pytest.raises(FileExistsError, match="is a FIFO"), replacing(path):
        os.mkfifo(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444 if ROOT else 0o644, 0o4755])
def test_mode_and_owner_stay(mode, tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    if ROOT:
        os.chown(path, SOMEBODY, SOMEBODY + 1)
    path.chmod(mode)
    before = path.stat()
    with replacing(path) as file:
        file.write(b"new")
        now = os.stat(file.name)  # and nobody can read what is being written, either
        assert (now.st_mode, now.st_uid) == (before.st_mode, before.st_uid)
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path, monkeypatch):
    umask = os.umask(0o027)
    try:
        # the umask belongs to the whole process: to read it is to change it for a moment
        monkeypatch.setattr(os, "umask", None)
        write_text(tmp_path / "x", "new")
    finally:
        monkeypatch.undo()
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    link.symlink_to("there/target")
    for text in ("the target is new", "the target is replaced"):
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert os.listdir(target.parent) == ["target"]


def test_places_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loose").symlink_to("nowhere/x")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name, message in (
        ("nowhere/x", "there is no folder .*nowhere to write x to"),
        ("file/x", "there is no folder .*file to write x to"),
        ("loose", "there is no folder .*nowhere to write loose to"),
        ("a", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
    ):
        for attempt in (check_output, lambda path: write_text(path, "x")):
            with pytest.raises(OSError, match=message):
                attempt(tmp_path / name)
    assert len(os.listdir(tmp_path)) == 4


def test_the_longest_name_can_be_written(tmp_path):
    write_text(tmp_path / ("x" * 255), "new")


@pytest.mark.parametrize(
    ("refused", "message"),
    [("x", "may not be written to"), (".", "its folder may not be written to")],
)
def test_what_is_write_protected_is_refused(refused, message, tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("old")
    access, hidden = os.access, tmp_path / refused
    # root may write everything
    monkeypatch.setattr(os, "access", lambda p, m: Path(p) != hidden and access(p, m))
    with pytest.raises(PermissionError, match=message) as caught:
        check_output(path)
    assert caught.value.filename == os.fspath(path)


@pytest.mark.skipif(not ROOT, reason="only root can give a file to somebody else")
def test_what_could_not_be_given_back_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.touch()
    os.chown(path, SOMEBODY, SOMEBODY)
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY + 1)
    with pytest.raises(PermissionError, match="belongs to somebody else: delete it first"):
        check_output(path)
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    check_output(path)


def test_ends_of_names():
    check_suffix("a/b.NPZ", (".npz",))
    with pytest.raises(ValueError, match=r"the file's name must end in \.npz, got 'a\.npz/b'"):
        check_suffix("a.npz/b", (".npz",))
    with pytest.raises(ValueError, match=r"must end in one of \.npz, \.csv, got '\.npz'"):
        check_suffix(".npz", (".npz", ".csv"))


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), ValueError("no")])
def test_an_interrupted_write_leaves_the_old_file_alone(error, tmp_path):
    path = tmp_path / "x"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_text(path, "x" * 100_000)
        with pytest.raises(OSError, match=r"x could not be written whole: \d+ requested"):  # noqa: SIM117
            with replacing(path) as file:
                np.save(file, np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, os.fspath(path))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_errors_about_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "x"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == os.fspath(tmp_path / "other")


def test_an_error_that_hides_the_systems_own_does_not_hide_the_file(tmp_path):
    def as_torch_does() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 704 vs 598")

    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "x"):
        as_torch_does()
    assert caught.value.filename == os.fspath(tmp_path / "x")


def test_many_writers_of_one_file(tmp_path):
    """One of them is the last; nobody sees half a file."""
    path, seen = tmp_path / "x", set()
    texts = [letter * 50_000 for letter in "abcdefgh"]
    write_text(path, texts[0])
    jobs = [threading.Thread(target=write_text, args=(path, text)) for text in texts * 5]
    for job in jobs:
        job.start()
        seen.add(path.read_text())
    for job in jobs:
        job.join()
    assert seen | {path.read_text()} <= set(texts)
    assert os.listdir(tmp_path) == ["x"]


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("rename"), rename(*names)))
    write_text(tmp_path / "x", "new")
    assert steps == ["fsync", "rename"]
