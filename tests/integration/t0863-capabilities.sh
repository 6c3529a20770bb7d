#!/bin/bash
# Capabilities (M5): what a sandbox says that it can is tried; what it says that it cannot is refused
# with the reason `unsupported`. For a sandbox, an ephemeral one, and one of the policy minimal.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

can() { api 200 GET "$(s "/$1")" && grep -o '"capabilities":{[^}]*}' out | grep -q "\"$2\":true"; }
unsupported() { has out '"code":"sandbox_unavailable"' && has out '"reason":"unsupported"' && has out '"retry":false'; }
# try NAME CAPABILITY METHOD PATH [DATA]: it works if the sandbox says so, else it is refused
try() {
    if can "$1" "$2"; then
        api "${OK:-200}" "$3" "$(s "/$1$4")" "${@:5}"
    else
        api 503 "$3" "$(s "/$1$4")" "${@:5}" && unsupported
    fi
}
sleeps() { # NAME
    try "$1" suspend POST /suspend && wakes "$1" && try "$1" hibernate POST /hibernate && try "$1" suspend POST /freeze && wakes "$1"
}
wakes() { ! can "$1" resume || api 200 POST "$(s "/$1/wake")"; }
forks() { # NAME: with its files, and with its memory
    api 200 POST "$(s "/$1/exec")" '{"shell":"echo kept >/workspace/f"}' &&
        api 201 POST "$(s "/$1/exec")" '{"shell":"x=remembered; while read -r l; do echo $x >/workspace/$l; done","background":true,"stdin":true}' && e=$(grep -oE "exe_[a-z0-9]+" out | head -1) &&
        OK=201 try "$1" fork_disk POST /fork '{}' && f=$(grep -oE '"id":"[a-z]+_[a-z0-9]+"' out | head -1 | cut -d'"' -f4) && api 201 POST "/v1/forks/$f/attach" "{\"name\":\"of-$1\"}" &&
        api 200 GET "$(s "/of-$1/files?path=/workspace/f")" && has out kept && if can "$1" fork_memory; then
        api 204 POST "$(s "/of-$1/exec/$e/stdin")" "told
" && until_true told "of-$1"
    fi
}
told() { api 200 GET "$(s "/$1/files?path=/workspace/told")" && grep -q remembered out; }

test_that 'a sandbox can do all that it says' '
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && for c in suspend resume hibernate fork_disk fork_memory pty; do can a $c || exit 1; done && sleeps a && forks a &&
    OK=200 try a pty POST /exec "{\"shell\":\"stty size\",\"tty\":{\"cols\":81,\"rows\":24}}" && has out "24 81"
'
test_that 'an ephemeral sandbox cannot sleep, and says so' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"e\",\"persistent\":false}" && for c in suspend resume hibernate; do ! can e $c || exit 1; done && sleeps e && can e pty && OK=200 try e pty POST /exec "{\"shell\":\"stty size\",\"tty\":{\"cols\":81,\"rows\":24}}"
'
test_that 'what no sandbox has is refused by its route' '
    can a desktop && exit 1; api 503 GET /v1/workbooks && unsupported
'
test_done
