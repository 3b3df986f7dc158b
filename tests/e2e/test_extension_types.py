"""The extension type-checks against pi's own declarations."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.e2e.pi_agent import MODULES, NODE, PI

from prunewise.hosts.pi.install import EXTENSION

pytestmark = pytest.mark.e2e

COMPILER = MODULES / "typescript" / "bin" / "tsc"


def test_the_extension_fits_pis_declarations(tmp_path: Path):
    if not COMPILER.exists():
        pytest.skip(f"needs the compiler: `make test` installs it ({COMPILER} is missing)")
    options = {
        "target": "es2024",
        "module": "nodenext",
        "strict": True,
        "noEmit": True,
        "noUnusedLocals": True,
        "noUnusedParameters": True,
        "skipLibCheck": True,
        # pi runs the files as they are: what is left when types are taken out has to be JavaScript
        "allowImportingTsExtensions": True,
        "erasableSyntaxOnly": True,
        "verbatimModuleSyntax": True,
        "types": ["node"],
        "typeRoots": [str(MODULES / "@types")],
        "paths": {"@earendil-works/pi-coding-agent": [str(PI.parent / "index.d.ts")]},
    }
    files = sorted(str(path) for path in EXTENSION.parent.glob("*.ts"))
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": files}))
    done = subprocess.run([NODE, COMPILER, "-p", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
