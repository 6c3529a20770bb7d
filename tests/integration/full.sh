# shellcheck shell=bash
# full.sh - a daemon whose data directory is a tmpfs. Source it with the size of that instead
# of lib.sh and daemon.sh. Where no tmpfs can be mounted the file's one test is skipped.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir data
FULL=$PWD/data
if ! mount -t tmpfs -o size=$1,mode=700 none data 2>mount.err; then
    test_that 'a full disk' 'skip "no tmpfs can be mounted here: $(cat mount.err)"'
    test_done
fi
. "$LIB_ROOT/tests/integration/daemon.sh"
trap '[ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; umount -l "$FULL"; rm -rf "$LIB_SCRATCH"' EXIT

free_kb() { df --output=avail -k data | tail -1; }
fill() { # to the last block, also where the daemon frees some meanwhile
    for _ in $(seq 20); do
        dd if=/dev/zero bs=64k 2>/dev/null >>data/filler || :
        dd if=/dev/zero bs=4k 2>/dev/null >>data/filler || :
        [ "$(free_kb)" -eq 0 ] && return 0
    done
    df -k data
    return 1
}
# leave PAGES: nothing but so many free pages
leave() {
    fill || :
    truncate -s -$(($1 * 4096)) data/filler
}
make_room() { rm -f data/filler; }
level() { # LEVEL: the daemon has seen it
    for _ in $(seq 200); do
        api 200 GET /metrics && grep -q "^doze_disk_level $1\$" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    grep doze_disk out
    return 1
}
metric() { api 200 GET /metrics && sed -n "s/^$1 //p" out; }
half_mark_kb() { echo $(($(metric doze_disk_mark_bytes) / 2048)); }
