"""A database of its own for each test: the fixture `database` is the address of a fresh server.

The template is made once a run; each server begins with a copy of it, in some 20 milliseconds, and keeps
nothing. The program is taken from the environment's ONDOL, or else from the path.
"""

import os
import pathlib
import subprocess

import pytest

ONDOL = os.environ.get("ONDOL", "ondol")
SCHEMA = pathlib.Path(__file__).parent.parent / "schema.sql"


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ondol") / "template"
    subprocess.run([ONDOL, "shell", folder, "-f", SCHEMA], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def ended_servers():
    """Servers that were told to end; nobody waits for them before the run is over."""
    servers = []
    yield servers
    for server in servers:
        server.wait(30)


@pytest.fixture
def database(template, ended_servers):
    options = ["--template", template, "--listen", "127.0.0.1:0", "--trust-loopback"]
    server = subprocess.Popen(
        [ONDOL, "serve", "--temporary", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for line in server.stdout:
        if line.strip().startswith("postgres://"):
            break
    else:
        raise RuntimeError(f"{ONDOL} serve ended with {server.wait()}")
    yield line.strip()
    server.terminate()
    ended_servers.append(server)
