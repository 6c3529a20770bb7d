# shellcheck shell=bash
# daemon.sh - a daemon for integration tests, spoken to by curl. Source it after lib.sh.
with_base
export DOZE_DATA=$PWD/data
SOCK=$PWD/data/doze.sock
mkdir empty

# start [OPTION...]: a daemon, ready
start() {
    doze daemon --log-level debug "$@" >>daemon.log 2>&1 &
    echo $! >daemon.pid
    for _ in $(seq 600); do
        curl -sf --unix-socket "$SOCK" http://d/readyz >/dev/null && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat daemon.log
    return 1
}
until_true() { # COMMAND...: within 20 s
    for _ in $(seq 400); do
        "$@" && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "never: $*"
    [ ! -e out ] || cat out
    return 1
}
stop() { # and wait for its end
    kill -TERM "$(cat daemon.pid)" || return 1
    gone "$(cat daemon.pid)"
}
thread_of() { # PID: another than its first, or nothing
    for task in "/proc/$1/task/"*; do
        [ "${task##*/}" = "$1" ] || { echo "$task" && return; }
    done
}
# PID: it ends within thirty seconds. A thread that writes to the disk then has its files open for
# longer than the process seems to be there.
gone() {
    for _ in $(seq 600); do
        [ -e "/proc/$1" ] || return 0
        grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null && [ ! -e "$(thread_of "$1")" ] && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "process $1 is still there"
    return 1
}
trap '[ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT

# api STATUS METHOD PATH [DATA]: the answer in out
api() {
    local want=$1 got data=()
    [ $# -lt 4 ] || data=(--data-binary "$4")
    got=$(curl -sS --max-time 30 --unix-socket "$SOCK" -o out -w '%{http_code}' -X "$2" "${data[@]}" "http://d$3") || return 1
    [ "$got" = "$want" ] && return 0
    echo "$2 $3: $got, not $want"
    cat out
    return 1
}
s() { echo "/v1/sandboxes${1:-}"; }
# of the sandbox that woke last
cell_of() { sed -n "s/.*event=cell_up .*pid=//p" daemon.log | tail -1; }
until_state() { # NAME STATE
    for _ in $(seq 600); do
        api 200 GET "$(s "/$1")" && grep -q "\"state\":\"$2\"" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "never $2:"
    cat out
    return 1
}

doze image build -q --from "$DOZE_BASE" --from-dir empty -t base >/dev/null || { echo "Bail out! no image"; exit 1; }
