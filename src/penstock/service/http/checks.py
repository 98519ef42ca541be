"""What a request must hold to become a job."""

from __future__ import annotations

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.service.http.keys import Keys
from penstock.service.http.programs import Programs
from penstock.service.state.problems import Problem
from penstock.service.state.state import ServiceState
from penstock.service.work.messages import AdmissionRefused


class JobChecks:
    """The rules of submission: the program, its inputs, and its keys are there."""

    def __init__(self, state: ServiceState, keys: Keys, programs: Programs) -> None:
        self._state, self._keys, self._programs = state, keys, programs

    def checked(self, tenant: str, request: Row) -> tuple[Row, str | None]:
        """The program of a request, and the tenant's key pair. Raises: Problem: the request cannot be a job now."""
        program = self._programs.row(tenant, request["program"])
        if request.get("package", program["package"]) != program["package"]:
            raise Problem(
                409, f"'{request['program']}' is another package than the job is for", kind="other-package",
                remedy="name the package that is deployed, or deploy the one that is named",
            )  # fmt: skip
        inputs, wanted = request["inputs"], {declared["name"] for declared in program["description"]["inputs"]}
        if set(inputs) != wanted:
            raise Problem(
                422, f"the inputs are {sorted(inputs)}, and the program takes {sorted(wanted)}",
                remedy="name each input once, with the SHA-256 of its upload", kind="inputs",
            )  # fmt: skip
        lacking = self._state.lacking(tenant, inputs.values())
        for name in (name for name, sha256 in inputs.items() if sha256 in lacking):
            raise Problem(
                422, f"input '{name}': this tenant has no ciphertext {inputs[name]}", kind="inputs",
                remedy='send it with POST /v1/uploads and "kind": "input"; inputs expire', more={"input": name},
            )  # fmt: skip
        needs = self._keys.needs(tenant, program["description"])
        if needs["lacking"]:
            raise Problem(
                424, f"{len(needs['lacking'])} of {len(needs['needed'])} keys are lacking", kind="keys-lacking",
                remedy='make them and send them with "kind": "key", then submit the job again', more=needs,
            )  # fmt: skip
        return program, needs["pair"]


def not_taken(error: AdmissionRefused | UsageError) -> Problem:
    """The answer where the pool does not take a job."""
    if isinstance(error, AdmissionRefused):
        return Problem(
            429, error.why, remedy="come again when the answer says", kind="admission",
            retry_after_s=error.retry_after_s,
        )  # fmt: skip
    remedy = "submit a smaller program, or ask the operator to raise work.memory"
    return Problem(422, str(error), remedy=remedy, kind="job-size")
