# shellcheck shell=bash
# linux_daemon.sh - a daemon with the image debian of `make test-images`. Source it after lib.sh.
# Without that image each test of `linux_test` is skipped.
LINUX_IMAGES=${DOZE_TEST_IMAGES:-$LIB_ROOT/build/data}/images
LINUX_IMAGE=${LINUX_IMAGE:-debian}
linux_test() { # WHAT COMMANDS
    if [ -e "$LINUX_IMAGES/tags/$LINUX_IMAGE:latest" ]; then
        test_that "$1" "$2"
    else
        test_that "$1" "skip 'the image $LINUX_IMAGE is not built: make test-images'"
    fi
}
# The files of images are never changed, so the daemon's are links to them.
mkdir -p data/images
chmod 700 data data/images
for dir in files packs tags; do
    [ ! -e "$LINUX_IMAGES/$dir" ] || cp -al "$LINUX_IMAGES/$dir" data/images 2>/dev/null ||
        cp -a "$LINUX_IMAGES/$dir" data/images
done
. "$LIB_ROOT/tests/integration/daemon.sh"
created() { doze create -q "$@" "$LINUX_IMAGE" >/dev/null; } # [OPTION...]
# NAME: milliseconds of CPU that its cell and its programs have used
cpu_ms() {
    doze top --json | python3 -c '
import json, sys
print(*(s["cpu_ms"] for s in json.load(sys.stdin)["sandboxes"] if s["name"] == sys.argv[1]))' "$1"
}
field() { python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"; }
