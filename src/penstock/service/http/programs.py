"""Deployed programs: packages that were examined and found within the limits."""

from __future__ import annotations

import asyncio
import json
import threading

from penstock.base.types import Row, Rows
from penstock.service.http.config import Config
from penstock.service.http.examiner import Examiner
from penstock.service.http.limits import BODY_BYTES
from penstock.service.http.threads import in_thread
from penstock.service.http.uploads import Files
from penstock.service.state.problems import Problem, no_such
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller
from penstock.service.work.bounds import memory_of_one

NAME_CHARS, MOST_INPUTS = 200, 10_000
"""Of the names of inputs and outputs; of a program."""
_JOB_BYTES = BODY_BYTES - 1024
"""Of the inputs in the body of a submission."""


class Programs:
    """The programs of all tenants."""

    def __init__(self, config: Config, state: ServiceState, files: Files) -> None:
        self._limits, self._state, self._files = config.limits, state, files
        self._memory_bytes = memory_of_one(config.work.memory_bytes)
        self._taking = threading.Lock()
        self.examiner = Examiner(
            most_bytes=config.limits.examine_bytes,
            seconds=config.limits.examine_s,
            key_bytes=config.work.worker_key_bytes,
            machine=config.work.machine,
            user=config.work.user,
        )

    async def deploy(self, caller: Caller, name: str, sha256: str) -> tuple[bool, Row]:
        """Whether the program is new under this name, and its description.

        Raises: Problem: no such package, bytes that hold no package, a program beyond the limits, no turn.
        """
        there = await in_thread(self._deployed, caller.tenant, name, sha256)
        if there is not None:
            return False, there
        path = self._files.blob(caller.tenant, sha256)
        said = await asyncio.wrap_future(self.examiner.examine(caller.tenant, path))
        return await in_thread(self._take, caller, name, sha256, self._found(said))

    def _deployed(self, tenant: str, name: str, sha256: str) -> Row | None:
        """The program where it is there already. Raises: Problem: it cannot be deployed."""
        there = self._state.program(tenant, name)
        if there is not None and there["package"] == sha256:
            return self._shown(there)
        self._check_package(tenant, sha256)
        if there is not None:
            raise Problem(
                409, f"program '{name}' is another package", remedy="delete it first, or deploy under another name",
                kind="program-differs",
            )  # fmt: skip
        return None

    def _check_package(self, tenant: str, sha256: str) -> None:
        blob = self._state.blob(tenant, sha256)
        if blob is None or "package" not in blob["kind"].split():
            raise no_such("package", sha256, 'send it with POST /v1/uploads and "kind": "package"')

    def _take(self, caller: Caller, name: str, sha256: str, description: Row) -> tuple[bool, Row]:
        """Deploy an examined package, unless things changed meanwhile."""
        _check_names(description)
        self._check_limits(description)
        tenant = caller.tenant
        with self._files.using(tenant, caller.era), self._files.turn(sha256), self._taking:
            there = self._deployed(tenant, name, sha256)
            if there is not None:
                return False, there
            self._state.put_program(tenant, name, sha256, description, most=self._limits.programs)
        return True, self.show(tenant, name)

    def _found(self, said: Row) -> Row:
        """The description that the examination found. Raises: Problem: it refused the package, or did not end."""
        if "refused" in said:
            raise Problem(
                422, str(said["refused"]), remedy="make the package again with 'penstock package' or 'penstock record'",
                kind="package-refused",
            )  # fmt: skip
        if "broke" in said:
            raise Problem(
                422, f"the package could not be examined: {said['broke']}",
                remedy="make it again with 'penstock package' or 'penstock record'; if it is refused again, the server "
                "has a fault: tell its operator", kind="package-broke",
            )  # fmt: skip
        if "found" not in said:
            raise Problem(
                422,
                f"the package was not examined within {self._limits.examine_s:g} s"
                if said["is_late"]
                else "the package could not be examined in the memory given",
                remedy="deploy a smaller program, or ask the operator to raise limits.examine_seconds and "
                "examine_bytes",
                kind="package-size",
            )
        description: Row = said["found"]
        return description

    def _check_limits(self, description: Row) -> None:
        predicted, limits = description["predicted"], self._limits
        memory = predicted["memory_bytes"] + max((key["bytes"] for key in description["keys"]), default=0)
        for what, value, most, setting in (
            ("seconds", predicted["seconds"], limits.program_s, "limits.program_seconds"),
            ("bytes of memory", memory, limits.program_bytes, "limits.program_bytes"),
            ("bytes of memory besides keys", predicted["memory_bytes"], self._memory_bytes, "work.memory"),
        ):
            if value > most:
                raise Problem(
                    422, f"the program is predicted to take {value:g} {what}: this server runs at most {most:g}",
                    remedy=f"deploy a smaller program, or ask the operator to raise {setting}", kind="program-limit",
                    more={"predicted": predicted},
                )  # fmt: skip

    def row(self, tenant: str, name: str) -> Row:
        """Raises: Problem: there is none."""
        row = self._state.program(tenant, name)
        if row is None:
            raise no_such("program", name, "GET /v1/programs lists them, POST /v1/programs deploys one")
        return row

    def show(self, tenant: str, name: str) -> Row:
        """The description of a program."""
        return self._shown(self.row(tenant, name))

    def listed(self, tenant: str) -> Rows:
        return [self._shown(row) for row in self._state.programs(tenant)]

    def remove(self, tenant: str, name: str) -> None:
        """Remove a program, and its package where no other one uses it, nor is it an input or ciphertext as well."""
        package = self.row(tenant, name)["package"]
        with self._files.turn(package):
            self._state.remove_program(tenant, name)
            if self._state.end_use(tenant, package, "package"):
                self._files.blob(tenant, package).unlink(missing_ok=True)

    @staticmethod
    def _shown(row: Row) -> Row:
        return {**row["description"], "name": row["program"], "package": row["package"]}


def _check_names(description: Row) -> None:
    """Raises: Problem: no job could name the program's inputs, or nobody its outputs."""
    inputs, outputs = ([row["name"] for row in description[what]] for what in ("inputs", "outputs"))
    wrong = [name for name in (*inputs, *outputs) if not 0 < len(name) <= NAME_CHARS]
    twice = len({*inputs}) < len(inputs) or len({*outputs}) < len(outputs)
    job = len(json.dumps(dict.fromkeys(inputs, "0" * 64)).encode())
    if wrong or twice or len(inputs) > MOST_INPUTS or job > _JOB_BYTES:
        raise Problem(
            422,
            f"the name '{wrong[0][:50]}' has {len(wrong[0])} characters" if wrong
            else "two inputs or outputs have one name" if twice
            else f"{len(inputs)} inputs with their names are too long for the body of a job",
            rule=f"names have 1 to {NAME_CHARS} characters, and a job names all inputs in {_JOB_BYTES} bytes",
            remedy="give each a short name of its own, or pack several inputs in one", kind="package-refused",
        )  # fmt: skip
