"""A client of `penstock serve`: keys are made and kept here, and only ciphertexts and evaluation keys leave.

The service learns nothing of a decryption: all results of a job are fetched before the first is decrypted, and nothing
is sent, repeated or asked for because a decryption failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import numpy as np

from penstock.base.system.files import WouldOverwrite, os_errors, remove_dead, unfinished_folder, write_atomic
from penstock.base.system.web import ServiceError, Token, Web
from penstock.base.types import Row, Rows
from penstock.errors import CheckFailed, ParamsError, UsageError
from penstock.program.evaluator.flooding import QUERIES, STATISTICAL_BITS
from penstock.program.evaluator.protocol import Values
from penstock.runtime.client.described import DeployedProgram, NeededKeys, needed_of, program_of
from penstock.runtime.client.jobs import BegunJobs, checked_job, package_of, results_of, told_by
from penstock.runtime.client.journal import Journal, Record
from penstock.runtime.client.pair import FILES, OWNER, SHARED, KeyPair
from penstock.runtime.client.shared_count import SharedCount
from penstock.runtime.client.uploads import OnBytes, Uploads, digest_of
from penstock.runtime.keystore import check_tenant, parameter_digest
from penstock.scheme.operations import TO_SPARSE_KEY
from penstock.scheme.params.ckks import CkksParameters

JOURNAL = "journal.jsonl"
EVALUATION = "evaluation"
"""Folder of the evaluation keys inside a pair's."""
ENDED = ("done", "failed", "cancelled", "expired")
"""States in which a job stays."""
LONGEST_POLL_S = 20.0
_HEAD_BYTES = 1 << 20
"""Of a result besides its rows; more is none."""

OnKey = Callable[[str, int, int], None]
"""Called with a key, how many are there, and how many there will be."""


class Service(AbstractContextManager["Service"]):
    """One tenant's programs, keys and jobs at a service.

    Args:   url: `https://host:port`; `http` for this machine only. token: the tenant's; it never shows in messages.
            ca: file of certificates to trust instead of the system's. folder: holds the key pair, its evaluation keys,
            the journal and the jobs, for this user alone; `make_keys` makes it. passphrase: seals the
            secret key. tenant: name at the service, where the service does not say it. allow_insecure: take programs
            whose parameter set states no level of security. patience_s: longest wait for a service that is down or
            refuses for now.
    Raises, all methods: ServiceRefused: the service says no. ServiceUnreachable: it does not answer. FileError.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token | str,
        ca: Path | None = None,
        folder: Path | None = None,
        passphrase: bytes | None = None,
        tenant: str | None = None,
        threads: int | None = None,
        allow_insecure: bool = False,
        patience_s: float = 300.0,
    ) -> None:
        kept = token if isinstance(token, Token) else Token(token)
        self._web = Web(url, kept, ca=ca, patience_s=patience_s)
        self._folder, self._passphrase = folder, passphrase
        self._tenant, self._threads, self._allow_insecure = tenant, threads, allow_insecure
        self._pair: KeyPair | None = None
        self._begun: Journal | None = None

    def __repr__(self) -> str:
        return f"Service({self._web.url!r})"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._web.close()

    # Programs

    def programs(self) -> Rows:
        """The tenant's programs, as the service lists them."""
        return self._rows("/v1/programs", "programs")

    def program(self, name: str) -> DeployedProgram:
        """A program's inputs, outputs, parameters and keys, checked.

        Raises: ParamsError: its set is malformed.
        """
        described = program_of(self._web.ask("GET", f"/v1/programs/{quote(name, safe='')}").content)
        if described.name != name:
            raise ServiceError(
                f"the service describes '{described.name}' where '{name}' was asked for: tell its operator"
            )
        return described

    def needed_keys(self, name: str) -> NeededKeys:
        """The keys of a program, and which of them the service lacks."""
        return needed_of(self._web.ask("GET", f"/v1/programs/{quote(name, safe='')}/keys").content)

    def deploy(self, package: Path, name: str, *, on_bytes: OnBytes | None = None) -> Row:
        """Upload a program package and deploy it under a name; the service's predictions of its time and memory."""
        journal = self._journal if self._folder is not None and self._folder.is_dir() else Journal(None)
        sha256 = Uploads(self._web, journal).send(package, "package", on_bytes=on_bytes)
        deployed = self._web.ask("POST", "/v1/programs", {"name": name, "package": sha256}).content
        if journal.path is not None:
            # A set that no client has keys for has no results either.
            with suppress(ParamsError):
                journal.note("deployed", self._jobs.key(name), package=told_by(package, sha256))
        return deployed

    # Keys

    def make_keys(self, name: str, folder: Path | None = None, *, on_key: OnKey | None = None) -> Rows:
        """Make the evaluation keys of a program: seeded, and truncated to the limbs of their highest use.

        The pair in the folder is used, or a new one made there. Whole keys that are there stay, so that the same call
        goes on after an interrupt. They are uploaded by `upload_keys`.

        Returns: a row a key: key, limbs, bytes, made, path.
        Raises: UsageError: no folder; parameters without a level of security; a pair of other parameters.
        """
        folder = self._take_folder(folder)
        program, needed = self.program(name), self.needed_keys(name)
        self._require_secure(program)
        tenant = self._tenant_of(needed)
        pair = self._open_pair(program.params, make=True)
        self._check_pair(needed, pair, name)
        place = folder / EVALUATION
        with os_errors(place):
            place.mkdir(mode=0o700, exist_ok=True)
            remove_dead(place)
        rows = []
        with unfinished_folder(place) as making:
            for done, (key, limbs) in enumerate(needed.needed.items(), 1):
                rows.append(self._made(pair, key, _limbs_of(key, limbs, program.params), tenant, making))
                if on_key is not None:
                    on_key(key, done, len(needed.needed))
        return rows

    def upload_keys(self, name: str, *, on_bytes: OnBytes | None = None) -> list[str]:
        """Upload the keys that the service lacks for a program; their names. Keys that are there are not sent again.

        Args:   on_bytes: called with the bytes of these keys that the service has, and all of them.
        Raises: UsageError: a key was not made, or the service has keys of another pair.
        """
        program, needed = self.program(name), self.needed_keys(name)
        pair = self._open_pair(program.params)
        self._check_pair(needed, pair, name)
        tenant = self._tenant_of(needed)
        segments = {}
        for key in needed.lacking:
            record = self._kept_key(pair, key, _limbs_of(key, needed.needed[key], program.params), tenant)
            if record is None:
                raise UsageError(
                    f"key {key} of program '{name}' is not in {self.folder / EVALUATION}: make it with 'penstock "
                    f"client keygen FOLDER --service {self._web.url} --program {name}'"
                )
            segments[key] = record
        total, before = sum(record["bytes"] for record in segments.values()), 0
        uploads = Uploads(self._web, self._journal)
        for key, record in segments.items():
            uploads.send(
                self._key_path(key),
                "key",
                digest=(record["sha256"], record["bytes"]),
                on_bytes=_in_all(on_bytes, before, total),
                is_there=lambda key=key: key not in self.needed_keys(name).lacking,  # type: ignore[misc]
                params=name,
                name=key,
            )
            before += record["bytes"]
        return list(segments)

    def keys(self) -> Rows:
        """The tenant's evaluation keys at the service: a row a key with key, set, pair, limbs, form, bytes."""
        return self._rows("/v1/keys", "keys")

    def remove_keys(self) -> int:
        """Remove all of the tenant's evaluation keys from the service; how many. Those in the folder stay.

        Raises: ServiceRefused: 409 while jobs of the tenant wait or run.
        """
        return int(self._web.ask("DELETE", "/v1/keys").content.get("removed", 0))

    def remove_everything(self) -> Row:
        """Remove all that the service has of the tenant: keys, programs, ciphertexts, results and jobs.

        Jobs that wait or run are cancelled. The tenant's tokens stay, and so does the folder. `remains` in the answer
        says what a backup may still hold.
        """
        return self._web.ask("DELETE", "/v1/tenant").content

    # Jobs

    def submit(
        self,
        name: str,
        inputs: Mapping[str, Values],
        job: str | None = None,
        *,
        package: Path | None = None,
        priority: int = 0,
        deadline_s: float | None = None,
        on_bytes: OnBytes | None = None,
    ) -> str:
        """Encrypt inputs and submit a job; its identity, which is the client's own.

        A job is submitted once, however often this is called with its identity. Without one, a job whose submission was
        cut off is gone on with, if it has these inputs; else a new one begins.

        Args:   inputs: by name, each of the program's length. package: the program as the client knows it, to which
                `result` holds the outputs; default: the package that this client deployed under the name. The service
                refuses the job if it has another one. priority: 0 to 9. deadline_s: from the submission.
        Raises: UsageError: inputs that the program does not take; a job that has others; a package of another program.
        """
        program = self.program(name)
        self._require_secure(program)
        values = program.checked(inputs)
        pair = self._open_pair(program.params)
        known = package_of(program, package, self._journal.get("deployed", self._jobs.key(name)))
        job, record = self._jobs.prepared(program, values, pair, job, known)
        if record["state"] != "prepared":
            return job
        total = sum(upload["bytes"] for upload in record["inputs"].values())
        before, uploads = 0, Uploads(self._web, self._journal)
        for upload in record["inputs"].values():
            report = _in_all(on_bytes, before, total)
            path = self._jobs.folder(job) / upload["file"]
            uploads.send(path, "input", digest=(upload["sha256"], upload["bytes"]), on_bytes=report)
            before += upload["bytes"]
        sent = {input_name: upload["sha256"] for input_name, upload in record["inputs"].items()}
        request: Row = {"job": job, "program": name, "inputs": sent, "priority": priority}
        if record.get("package") is not None:
            request["package"] = record["package"]["sha256"]
        if deadline_s is not None:
            request["deadline_s"] = deadline_s
        self._web.ask("POST", "/v1/jobs", request)
        self._journal.note("job", self._jobs.key(job), state="accepted")
        return job

    def prepare(self, name: str, inputs: Mapping[str, Values], folder: Path) -> dict[str, Path]:
        """Encrypt inputs into a folder, for somebody who submits them later; the file of each, by name."""
        program = self.program(name)
        self._require_secure(program)
        values = program.checked(inputs)
        pair = self._open_pair(program.params)
        with os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for at, (input_name, vector) in enumerate(values.items()):
            files[input_name] = folder / f"input-{at}.ct"
            write_atomic(files[input_name], pair.encrypt_seeded(vector), force=True)
        return files

    def wait(self, job: str, *, timeout_s: float | None = None) -> Row:
        """Wait until a job has ended, and return its state, times and figures.

        Raises: ServiceError: it has not ended in `timeout_s`.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            poll_s = LONGEST_POLL_S if end is None else min(LONGEST_POLL_S, max(0.0, end - time.monotonic()))
            path = f"/v1/jobs/{quote(checked_job(job), safe='')}?wait={poll_s:.3f}"
            asked = time.monotonic()
            status = self._web.ask("GET", path, wait_s=poll_s).content
            if status.get("state") in ENDED:
                return status
            if end is not None and time.monotonic() >= end:
                raise ServiceError(f"job '{job}' is {status.get('state')} after {timeout_s:g} s: wait for it again")
            if time.monotonic() - asked < 0.05:  # a service that does not hold polls
                time.sleep(0.2)

    def result(
        self,
        job: str,
        *,
        result_for: str,
        package: Path | None = None,
        inputs: Mapping[str, Values] | None = None,
        queries: int = QUERIES,
        statistical_bits: int = STATISTICAL_BITS,
    ) -> dict[str, Values]:
        """The decrypted outputs of a job by name, (length,) float64 or complex128.

        All ciphertexts are fetched first and kept. A later call decrypts those, and asks the service nothing. Each
        output of a shared result counts as one.

        Args:   package: the program, where `submit` was not told it; the others as of `KeyPair.decrypt`.
        Raises: CheckFailed: the job has not computed. UsageError: a job of another folder, or of another package.
                PenstockError: a result does not decrypt. The others as of `KeyPair.decrypt`.
        """
        checked_job(job)
        key = self._jobs.key(job)
        record = self._journal.get("job", key)
        if record is None:
            raise UsageError(f"job '{job}' was not submitted from {self.folder}: name the folder that it came from")
        if record["state"] != "fetched":
            status = self.wait(job)
            if status["state"] != "done":
                why = str(status.get("reason") or status.get("detail") or "no reason is given")
                raise CheckFailed(f"job '{job}' {status['state']}: {why}")
            params = CkksParameters.from_dict(record["params"])
            most = _HEAD_BYTES + 2 * params.ciphertext_bytes(params.num_q, 3)
            for at, name in enumerate(record["outputs"]):
                path = f"/v1/jobs/{quote(job, safe='')}/outputs/{quote(name, safe='')}"
                self._web.download(path, self._jobs.folder(job) / f"output-{at}.ct", most_bytes=most)
            self._journal.note("job", key, state="fetched")
            for upload in record["inputs"].values():
                (self._jobs.folder(job) / upload["file"]).unlink(missing_ok=True)
        pair = self._open_pair(CkksParameters.from_dict(record["params"]))
        program = results_of(job, record, package, is_shared=result_for == SHARED)
        values = {}
        for at, (name, length) in enumerate(record["outputs"].items()):
            file = self._jobs.folder(job) / f"output-{at}.ct"
            with os_errors(file, "read"):
                content = file.read_bytes()
            is_complex = name in record.get("complex", ()) if program is None else program.one(name).is_complex
            decrypted = (pair.decrypt_complex if is_complex else pair.decrypt)(
                content, result_for=result_for, package=program, result=name, inputs=inputs, queries=queries,
                statistical_bits=statistical_bits,
            )  # fmt: skip
            decrypted = decrypted if is_complex else decrypted.real
            values[name] = np.ascontiguousarray(decrypted[:length])
        return values

    @property
    def shared(self) -> SharedCount:
        """The results of the pair that others know."""
        assert self._pair is not None
        return self._pair.shared

    def run(self, name: str, inputs: Mapping[str, Values]) -> dict[str, Values]:
        """Make and upload the keys that are lacking, submit a job, wait for it, and decrypt its outputs for the owner
        of the key alone."""
        if self.needed_keys(name).lacking:
            self.make_keys(name)
            self.upload_keys(name)
        return self.result(self.submit(name, inputs), result_for=OWNER)

    def cancel(self, job: str) -> None:
        """Take a job back, where it has not ended."""
        self._web.ask("DELETE", f"/v1/jobs/{quote(checked_job(job), safe='')}")

    # Inside

    def _rows(self, path: str, what: str) -> Rows:
        answer = self._web.ask("GET", path).content
        rows = answer.get(what, answer.get("items"))
        if not isinstance(rows, list):
            raise ServiceError(f"the service lists {what} in another way than this client reads: take its version")
        return rows

    @property
    def folder(self) -> Path:
        """The pair's folder. Raises: UsageError: none was named."""
        if self._folder is None:
            raise UsageError("name the folder of the key pair: Service(url, token=…, folder=…)")
        return self._folder

    @property
    def _journal(self) -> Journal:
        self._begun = self._begun or Journal(self.folder / JOURNAL)
        return self._begun

    @property
    def _jobs(self) -> BegunJobs:
        return BegunJobs(self.folder, self._journal, self._web.url)

    def _take_folder(self, folder: Path | None) -> Path:
        if folder is not None and self._folder not in (None, folder):
            raise UsageError(f"this client's keys are in {self._folder}: open another Service for {folder}")
        self._folder = folder or self._folder
        return self.folder

    def _require_secure(self, program: DeployedProgram) -> None:
        if not self._allow_insecure and program.security_bits == 0:
            params = program.params
            raise ParamsError(
                f"program '{program.name}' has parameters without a level of security (N = {params.ring_dim}, "
                f"log2(QP) = {params.log_qp}, {params.secret}): whoever sees ciphertexts may read them. For test "
                "data, say --allow-insecure (allow_insecure=True)"
            )

    def _open_pair(self, params: CkksParameters, *, make: bool = False) -> KeyPair:
        if self._pair is not None and parameter_digest(self._pair.params) == parameter_digest(params):
            return self._pair
        if not FILES.lie_in(self.folder):
            if not make:
                raise UsageError(f"{self.folder} holds no key pair: make it with 'penstock client keygen'")
            made = KeyPair.generate(params, threads=self._threads)
            if not made.save(self.folder, passphrase=self._passphrase):
                raise WouldOverwrite(self.folder, "move away what it holds")
        self._pair = KeyPair.load(self.folder, params, passphrase=self._passphrase, threads=self._threads)
        return self._pair

    def _check_pair(self, needed: NeededKeys, pair: KeyPair, name: str) -> None:
        if needed.pair not in (None, pair.tag):
            raise UsageError(
                f"the service has keys of another pair for the parameters of '{name}' (tag {needed.pair}; the pair in "
                f"{self.folder} has {pair.tag}): use that pair's folder, or remove its keys from the service first"
            )

    def _tenant_of(self, needed: NeededKeys) -> str:
        tenant = needed.tenant or self._tenant
        if tenant is None:
            raise UsageError("the service does not say this tenant's name: give it (tenant=…, --tenant)")
        if self._tenant not in (None, tenant):
            raise UsageError(f"the token is tenant '{tenant}''s, and '{self._tenant}' was named: take the right one")
        check_tenant(tenant, "the tenant's name")
        return tenant

    def _key_path(self, key: str) -> Path:
        return self.folder / EVALUATION / f"{key.replace(':', '-')}.pkey"

    def _kept_key(self, pair: KeyPair, key: str, limbs: int, tenant: str) -> Record | None:
        """The record of a key that is there, with rows for as many limbs."""
        record = self._journal.get("key", key)
        if record is None or (record["pair"], record["tenant"]) != (pair.tag, tenant) or record["limbs"] < limbs:
            return None
        path = self._key_path(key)
        return record if path.exists() and path.stat().st_size == record["bytes"] else None

    def _made(self, pair: KeyPair, key: str, limbs: int, tenant: str, making: Path) -> Row:
        path = self._key_path(key)
        record = self._kept_key(pair, key, limbs, tenant)
        is_new = record is None
        if record is None:
            fresh = making / path.name
            pair.write_key(key, fresh, tenant=tenant, limbs=limbs)
            sha256, size = digest_of(fresh)
            record = {"pair": pair.tag, "tenant": tenant, "limbs": limbs, "bytes": size, "sha256": sha256}
            with os_errors(path):
                fresh.replace(path)
            self._journal.note("key", key, **record)
        return {
            "key": key,
            "limbs": record["limbs"],
            "bytes": record["bytes"],
            "made": is_new,
            "path": str(path),
        }


def _in_all(on_bytes: OnBytes | None, before: int, total: int) -> OnBytes | None:
    """Told of one of several files, tells of all of them: `before` bytes were sent before it."""
    return None if on_bytes is None else lambda done, _: on_bytes(before + done, total)


def _limbs_of(key: str, limbs: int, params: CkksParameters) -> int:
    """The rows that a key has for a use at `limbs` limbs. Raises: ServiceError: the set has fewer."""
    if limbs > params.num_q:
        raise ServiceError(
            f"the service asks for {key} at {limbs} limbs, and the set has {params.num_q}: ask its operator"
        )
    return 1 if key == TO_SPARSE_KEY else limbs
