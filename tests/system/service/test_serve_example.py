"""The example that serves with TLS and PostgreSQL, from its certificate to its decrypted results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.postgres import missing

pytest.importorskip("fastapi")
pytest.importorskip("pg8000")

SCRIPT = Path(__file__).parents[3] / "examples" / "serve_tls_postgresql.sh"


@pytest.mark.long
@pytest.mark.usefixtures("openfhe")
def test_the_script_serves_with_tls_and_postgresql_and_leaves_nothing(tmp_path: Path) -> None:
    absent = [each for each in ("openssl", "curl", "sh") if shutil.which(each) is None]
    if why := missing() or (f"needs {', '.join(absent)}" if absent else ""):
        pytest.skip(why)
    tmp_path.chmod(0o755)
    # PostgreSQL runs as nobody where root tests.
    for above in tmp_path.parents:
        if above.name.startswith(("pytest-", "popen-")):
            above.chmod(0o755)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PATH": path, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "6 outputs, largest difference" in done.stdout
    assert list(tmp_path.iterdir()) == []
