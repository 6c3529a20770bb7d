# shellcheck shell=bash
# linux.sh - Linux programs in a sandbox beside the same on this machine, for lib.sh's tests.
#
# `same` runs a command in both, each in a fresh directory with the files of tests/linux, and
# compares exit status, output, and errors without the numbers of processes in them. The sandbox has the image debian of `make test-images`, in
# build/data, whose programs are those of Debian 12; on another machine, or without the image, the
# tests are skipped. DOZE_LINUX_ON=native compares this machine with itself: it shows whether a test
# says the same each time.
export DOZE_DATA=${DOZE_TEST_IMAGES:-$LIB_ROOT/build/data}
export LINUX_SKIP=
if [ "${DOZE_LINUX_ON:-}" != native ] && [ ! -e "$DOZE_DATA/images/tags/debian:latest" ]; then
    LINUX_SKIP='the image debian is not built: make test-images'
elif ! grep -qs 'VERSION_ID="12"' /etc/os-release; then
    LINUX_SKIP='this machine is not Debian 12, whose programs the image has'
fi
LINUX_ENV=(PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=C.UTF-8 TERM=xterm)

# on_host COMMAND...: in a fresh copy of the files
on_host() {
    local dir status=0
    dir=$(mktemp -d "$LIB_SCRATCH/host.XXXX") && cp -r "$LIB_ROOT/tests/linux/." made/. "$dir" 2>/dev/null || [ -d "$dir" ]
    # as a child of another program's, as in a sandbox: this shell would tell how it ended
    env --default-signal -i "${LINUX_ENV[@]}" HOME=/root python3 -c '
import subprocess, sys
s = subprocess.run(sys.argv[2:], cwd=sys.argv[1], stdin=subprocess.DEVNULL).returncode
sys.exit(s if s >= 0 else 128 - s)' "$dir" "$@" || status=$?
    rm -rf "$dir"
    return $status
}

# in_sandbox COMMAND...: made/, if there is one, has more files
in_sandbox() {
    local e with=()
    [ "${DOZE_LINUX_ON:-}" != native ] || { on_host "$@"; return; }
    for e in "${LINUX_ENV[@]}"; do with+=(-e "$e"); done
    [ ! -d made ] || with+=(--copy made/.:/work)
    doze run --image debian --copy "$LIB_ROOT/tests/linux:/work" -w /work "${with[@]}" -e HOME=/root -- "$@" </dev/null
}

unnumbered() { sed -E 's/[0-9]+//g; s/  +/ /g' "$1"; }

# same COMMAND...: out and err are the sandbox's
same() {
    local want=0 got=0
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    on_host "$@" >host.out 2>host.err || want=$?
    in_sandbox "$@" >out 2>err || got=$?
    diff host.out out >diff.out || true
    diff <(unnumbered host.err) <(unnumbered err) >diff.err || true
    [ "$got" = "$want" ] && [ ! -s diff.out ] && [ ! -s diff.err ] && return 0
    echo "exit $got, not $want: $*"
    sed 's/^/  out: /' diff.out
    sed 's/^/  err: /' diff.err
    return 1
}
