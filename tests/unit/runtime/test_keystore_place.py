"""Where a key store is, by the name that a user gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import _engine
from penstock.errors import CapabilityMissing, UsageError
from penstock.front.cli.main import main
from penstock.runtime.keystore.place import StorePlace, endpoint, object_settings

CACHE = {"XDG_CACHE_HOME": "/cache"}


def test_a_folder_is_its_own_place() -> None:
    for name in ("keys", "/data/keys", "a:b", "s3:/no"):
        assert StorePlace.named(name) == (Path(name), None)


def test_an_index_belongs_to_one_bucket_prefix_and_endpoint() -> None:
    here = StorePlace.named("s3://bucket/some/keys", CACHE)
    assert here.objects == "s3://bucket/some/keys"
    assert here.folder.parent == Path("/cache/penstock/keys")
    assert StorePlace.named("s3://bucket/some/keys/", CACHE) == here
    others = [
        StorePlace.named("s3://bucket/some", CACHE),
        StorePlace.named("s3://bucket", CACHE),
        StorePlace.named("s3://other/some/keys", CACHE),
        StorePlace.named("s3://bucket/some/keys", CACHE | {"AWS_ENDPOINT_URL": "https://minio"}),
    ]
    assert len({place.folder for place in [here, *others]}) == 5


@pytest.mark.parametrize("name", ["s3://", "s3:///keys", "gs://bucket/keys", "https://host/keys", "s3://bucket/k?x=1"])
def test_other_urls_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a folder, or s3://BUCKET/PREFIX"):
        StorePlace.named(name)


def test_the_most_particular_endpoint_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"AWS_ENDPOINT": "https://c", "AWS_ENDPOINT_URL": "https://b", "AWS_ENDPOINT_URL_S3": "https://a"}
    assert [endpoint(dict(list(environ.items())[:count])) for count in range(4)] == [
        None,
        "https://c",
        "https://b",
        "https://a",
    ]
    monkeypatch.setattr(_engine, "KeyStore", type("Built", (), {"OBJECT_STORES": True}))
    assert object_settings(environ | {"AWS_REGION": "x", "HOME": "/"}) == {
        "aws_region": "x",
        "aws_endpoint_url": "https://a",
    }


def test_a_build_without_object_stores_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("penstock.runtime.keystore.place._engine.KeyStore", type("Plain", (), {"OBJECT_STORES": False}))
    with pytest.raises(CapabilityMissing, match="make setup S3=1"):
        object_settings({})
    monkeypatch.undo()
    if _engine.KeyStore.OBJECT_STORES:
        return
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["keys", "ls", "--store", "s3://bucket/keys"]) == 3
    assert "make setup S3=1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
