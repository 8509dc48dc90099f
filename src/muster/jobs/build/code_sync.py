"""Code sync: an init container that fetches code before training starts.

The code ends up at `<working dir>/code/<project>` in every container that trains. The init
container needs nothing of its image but sh with git (or rsync), so on the local cluster it runs
with the host's programs. It is configured by variables named GIT_SYNC_…, as in git-sync. The
password of a secret is visible to this container only and on no command line.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kubekit.errors import UsageError
from muster.jobs.build import flag_values
from muster.jobs.build.volumes import Mounted, mounted

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from muster.jobs.build.flags import Site, Submission

VOLUME, ROOT, SOURCE, SECRET = "code-sync", "/code", "code-source", "code-secret"
KEYS = "/etc/git-secret"
GIT_IMAGE, RSYNC_IMAGE = "alpine/git:2.49.1", "instrumentisto/rsync-ssh:alpine"

_PROLOGUE = f"""\
set -eu
HOME=$(mktemp -d); export HOME GIT_TERMINAL_PROMPT=0
trap 'rm -rf "$HOME"' EXIT
for key in username password; do
  if [ -f {KEYS}/$key ]; then
    case $key in
      username) GIT_SYNC_USERNAME=$(cat {KEYS}/$key);;
      password) GIT_SYNC_PASSWORD=$(cat {KEYS}/$key);;
    esac
  fi
done
export GIT_SYNC_USERNAME="${{GIT_SYNC_USERNAME:-}}" GIT_SYNC_PASSWORD="${{GIT_SYNC_PASSWORD:-}}"
for key in ssh-privatekey ssh; do
  if [ -f {KEYS}/$key ]; then
    (umask 077; cat {KEYS}/$key > "$HOME/key"; echo >> "$HOME/key")
    trust="-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$HOME/known_hosts"
    if [ -f {KEYS}/known_hosts ]; then
      trust="-o StrictHostKeyChecking=yes -o UserKnownHostsFile={KEYS}/known_hosts"
    fi
    GIT_SSH_COMMAND="ssh -i $HOME/key -o IdentitiesOnly=yes $trust"
    export GIT_SSH_COMMAND RSYNC_RSH="$GIT_SSH_COMMAND"
    break
  fi
done
"""

# Not every server lets a client fetch any commit by its hash: then all branches are fetched, and
# the commit is looked up among them. By default git refuses submodules from a local path, which
# --sync-source may be.
GIT_SCRIPT = (
    _PROLOGUE
    + """\
git config --global --add safe.directory '*'
git config --global advice.detachedHead false
git config --global credential.helper '!f() {
  if [ "$1" = get ] && [ -n "$GIT_SYNC_PASSWORD" ]; then
    printf "username=%s\\npassword=%s\\n" "${GIT_SYNC_USERNAME:-git}" "$GIT_SYNC_PASSWORD"
  fi
}; f'
into="$GIT_SYNC_ROOT/$GIT_SYNC_DEST"
rm -rf "$into"
git init --quiet "$into"
cd "$into"
git remote add -- origin "$GIT_SYNC_REPO"
branch=${GIT_SYNC_BRANCH:-HEAD}
revision=${GIT_SYNC_REV:-}
if [ "$revision" = HEAD ]; then revision=; fi
depth=
if [ "${GIT_SYNC_DEPTH:-0}" -gt 0 ]; then depth="--depth=$GIT_SYNC_DEPTH"; fi
if [ -z "$revision" ]; then
  git fetch --quiet $depth -- origin "$branch"
elif ! git fetch --quiet $depth -- origin "$revision" 2>/dev/null; then
  git fetch --quiet --tags origin '+refs/heads/*:refs/remotes/origin/*'
  git update-ref FETCH_HEAD "$(git rev-parse --verify --quiet "$revision^{commit}" ||
    git rev-parse --verify "origin/$revision^{commit}")"
fi
git checkout --quiet --detach FETCH_HEAD
if [ "$branch" != HEAD ] && [ -z "$revision" ]; then git checkout --quiet -B "$branch"; fi
case ${GIT_SYNC_SUBMODULES:-recursive} in
  off|false) ;;
  shallow) git -c protocol.file.allow=always submodule --quiet update --init $depth;;
  *) git -c protocol.file.allow=always submodule --quiet update --init --recursive $depth;;
esac
shown=$(printf '%s\\n' "$GIT_SYNC_REPO" | sed 's#^\\([A-Za-z0-9+.-]*://\\)[^/]*@#\\1#')
echo "$shown at $(git rev-parse HEAD)"
"""
)

# A mounted directory is copied without rsync, by rsync's rule for a trailing `/`. The shell waits
# for a child in the background: so it obeys SIGTERM at once, and removes its HOME at the end.
RSYNC_SCRIPT = (
    _PROLOGUE
    + """\
if command -v rsync >/dev/null || [ ! -d "$SYNC_SOURCE" ]; then
  set -- rsync -avP -- "$SYNC_SOURCE" "$SYNC_ROOT"
else
  case $SYNC_SOURCE in
    */) set -- cp -a -- "$SYNC_SOURCE." "$SYNC_ROOT";;
    *) set -- cp -a -- "$SYNC_SOURCE" "$SYNC_ROOT";;
  esac
fi
trap 'exit 143' TERM
"$@" &
wait $!
"""
)


def check(args: Submission) -> None:
    """Raise UsageError if the flags of code sync are incomplete or contradict each other."""
    extras = ("source", "image", "branch", "revision", "depth", "submodules", "secret")
    flags = [f"--sync-{name}" for name in extras if getattr(args, f"sync_{name}")]
    if not args.sync_mode:
        if flags:
            raise UsageError(f"{flags[0]} is given without --sync-mode", hint="Add --sync-mode=git")
        return
    mode = flag_values.choice("--sync-mode", args.sync_mode, ("git", "rsync"))
    if not args.sync_source:
        raise UsageError(
            "--sync-source should be set when --sync-mode is set",
            hint="For example --sync-source=https://host/team/project.git",
        )
    only_git = [flag for flag in flags if flag[7:] in ("branch", "revision", "depth", "submodules")]
    if mode == "rsync" and only_git:
        raise UsageError(f"{only_git[0]} is for --sync-mode=git")
    for name in ("source", "branch", "revision"):
        text = getattr(args, f"sync_{name}")
        if text.startswith("-") or (name != "source" and any(map(str.isspace, text))):
            raise flag_values.wrong(
                f"--sync-{name}",
                text,
                "It cannot be fetched: it begins with '-' or contains spaces.",
            )
    if args.sync_submodules:
        flag_values.choice(
            "--sync-submodules", args.sync_submodules, ("recursive", "shallow", "off")
        )
    if not project(args.sync_source):
        raise flag_values.wrong(
            "--sync-source", args.sync_source, "It has no last part that names the directory."
        )


def project(source: str) -> str:
    """The directory below `code` for a source: its last part, without `.git`."""
    last = source.rstrip("/").rpartition("/")[2]
    if "/" not in source.rstrip("/"):
        last = last.rpartition(":")[2]  # host:project, the ssh form
    return last.partition(".git")[0]


def local_path(source: str) -> str:
    """The path on this machine that a source names, if any."""
    if source.startswith("file://"):
        return unquote(urlsplit(source).path)
    return source if source.startswith("/") else ""


def mount(args: Submission) -> list[Mounted]:
    """The mount of the code in a container that trains."""
    if not args.sync_mode:
        return []
    return [mounted(VOLUME, posixpath.join(args.directory, "code"), emptyDir={})]


def volumes(args: Submission, site: Site) -> list[Raw]:
    """The volumes that only the init container needs."""
    return [row.volume for row in _inputs(args, site)]


def container(args: Submission, site: Site, env: Raw, resources: Raw) -> list[Raw]:
    """The init container, if `--sync-mode` is given; `env` is that of the job's containers."""
    if not args.sync_mode:
        return []
    git = args.sync_mode.lower() == "git"
    source = local_path(args.sync_source) or args.sync_source
    rows = {"SYNC_SOURCE": source, "SYNC_ROOT": ROOT}
    if git:
        rows = _git_variables(args)
    sync_env = [{"name": name, "value": value} for name, value in rows.items()]
    job_env = [row for row in env.get("env", []) if row["name"] not in rows]
    init: Raw = {
        "name": "init-code",
        "image": args.sync_image or (GIT_IMAGE if git else RSYNC_IMAGE),
        "imagePullPolicy": args.image_pull_policy,
        "command": ["sh", "-c", GIT_SCRIPT if git else RSYNC_SCRIPT],
        **env,
        "env": job_env + sync_env,
        "volumeMounts": [
            {"name": VOLUME, "mountPath": ROOT},
            *(row.mount for row in _inputs(args, site)),
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if resources:
        init["resources"] = resources
    return [init]


def _git_variables(args: Submission) -> dict[str, str]:
    rows = {
        "GIT_SYNC_REPO": args.sync_source,
        "GIT_SYNC_DEST": project(args.sync_source),
        "GIT_SYNC_ROOT": ROOT,
        "GIT_SYNC_ONE_TIME": "true",
    }
    optional = {
        "GIT_SYNC_BRANCH": args.sync_branch,
        "GIT_SYNC_REV": args.sync_revision,
        "GIT_SYNC_DEPTH": str(args.sync_depth or ""),
        "GIT_SYNC_SUBMODULES": args.sync_submodules,
    }
    return rows | {name: value for name, value in optional.items() if value}


def _inputs(args: Submission, site: Site) -> list[Mounted]:
    """The volumes that the init container reads: a repository of this machine, a secret."""
    if not args.sync_mode:
        return []
    rows = []
    path = local_path(args.sync_source).rstrip("/")
    if path and not site.local:
        raise UsageError(
            f"--sync-source {args.sync_source} is a path on this machine, which pods cannot see",
            hint="Push it to a server they reach; local paths work on the local cluster.",
        )
    if path:
        rows.append(mounted(SOURCE, path, hostPath={"path": path}))
        rows[-1].mount["readOnly"] = True
    if args.sync_secret:
        flag_values.object_name("--sync-secret", args.sync_secret)
        rows.append(mounted(SECRET, KEYS, secret={"secretName": args.sync_secret}))
    return rows
