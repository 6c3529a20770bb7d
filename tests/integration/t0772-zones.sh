#!/bin/bash
# What each process of a running system holds, against the table of zones in SECURITY.md; with
# DZ_WRITE_DOCS=1 the table is written. A call ends within milliseconds, so the daemon is
# doze_hostile (docs/design/attacks.md), whose call is made to stay. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }

zones=$LIB_ROOT/tests/lib/zones.py
hostile=$(dirname "$DOZE")/doze_hostile
call=5 # PLACE_CALL
secret=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
id_of() { api 200 GET "$(s "/$1")" && grep -o '"id":"sbx_[0-9a-z]*' out | cut -d'"' -f4; }
# a: its machine runs. b: file-only, a file comes to it and does not end. c: a call clones it.
every_kind() { # PREFIX
    for name in "$1a" "$1b" "$1c"; do
        api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"$name\",\"env\":{\"SECRET\":\"${secret:0:9}$name${secret:9}\"}}" && api 200 POST "$(s "/$name/exec")" '{"shell":"true"}' || return 1
    done
    for name in "$1b" "$1c"; do api 200 POST "$(s "/$name/suspend")" || return 1; done
    id_of "$1a" >id_a && id_of "$1b" >id_b && rm -f slow && mkfifo slow && exec 9<>slow || return 1
    { curl -s --max-time 60 --unix-socket "$SOCK" -T - "http://d/v1/sandboxes/$1b/files?path=/up" <slow >up 9>&- & }
    echo some >&9
    python3 "$zones" arm board $call stays || return 1
    { curl -s --max-time 60 --unix-socket "$SOCK" -d '{}' "http://d/v1/sandboxes/$1c/clone" >clone 9>&- & }
    until_true python3 "$zones" tried board && until_true complete
}
complete() { # every kind of process is there
    python3 "$zones" "$(cat daemon.pid)" data "cell=$(cat id_a)" "cell, file-only=$(cat id_b)" >rows
    [ "$(cut -d'|' -f2 rows | sort -u | wc -l)" -eq 11 ] # a head, a rule, nine kinds
}
# Of a daemon that is root; and of one that is not, whose processes are all its user.
documented() { sed -n '/<!-- zones: begin -->/,/<!-- zones: end -->/p' "$LIB_ROOT/SECURITY.md" | grep '^|'; }
shared() { documented | sed "s/| its own |/| the daemon's |/; s/| its tenant's |/| the daemon's |/; s/| CAP_SETUID, CAP_SETGID |/| none |/
    s/^\\(| root zygote .*\\)| mnt |/\\1| mnt user |/; s/^\\(| guard .*\\)| mnt pid |/\\1| mnt pid user |/"; }
write_docs() {
    awk -v rows="$PWD/rows" '
        /<!-- zones: begin -->/ { print; print ""; while ((getline line <rows) > 0) print line; print ""; skip = 1 }
        /<!-- zones: end -->/ { skip = 0 }
        !skip' "$LIB_ROOT/SECURITY.md" >security && cat security >"$LIB_ROOT/SECURITY.md"
}
end() { # at once: a daemon that stops waits for its calls
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)"
}
all_fences() { # [USERS]: this host has what the table says
    until_true has daemon.log event=jail >/dev/null || return 1
    has daemon.log "fences=\"landlock scopes user net ipc uts mount pid caps${1:-}\"" || skip "this host lacks a fence"
}

test_that 'the hook is in no program but those that are for it' '
    nm "$hostile" | grep -q hostile_arrive && ! nm "$DOZE" | grep -qi "hostile_\|__wrap_"
'
ln -sf "$hostile" "$LIB_SCRATCH/bin/doze"
export DZ_HOSTILE=$PWD/board
truncate -s 4096 board
start || exit 1
test_that 'each process holds what the table of zones says, and nothing else' '
    [ "$(id -u)" -eq 0 ] || skip "not root"
    all_fences " users"
    every_kind r
    [ -z "${DZ_WRITE_DOCS:-}" ] || write_docs
    documented >expected
    diff expected rows
'
# The secret of a sandbox is known to the daemon and to its cell: to no zygote, no other cell and
# no call, whatever has been made since.
test_that 'a secret is in the memory of the daemon and of its own cell, and nowhere else' '
    [ "$(id -u)" -eq 0 ] || skip "only root may read the memory of cells"
    python3 "$zones" holders "$(cat daemon.pid)" data "${secret:0:9}ra${secret:9}" "cell=$(cat id_a)" "cell, file-only=$(cat id_b)" >holders
    cat holders
    grep -qx cell holders && ! grep -vx "cell\|daemon" holders
    python3 "$zones" holders "$(cat daemon.pid)" data "${secret:0:9}" "cell=$(cat id_a)" "cell, file-only=$(cat id_b)" >holders
    cat holders
    ! grep -vx "cell\|cell, file-only\|daemon\|call" holders
'
end
cat >as_user <<END
#!/bin/sh
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$hostile" "\$@"
END
test_that 'the same where the daemon is an ordinary user' '
    [ "$(id -u)" -eq 0 ] || skip "it was one"
    chmod 755 as_user && mv as_user "$LIB_SCRATCH/bin/doze.user" && ln -sf doze.user "$LIB_SCRATCH/bin/doze"
    chown -R 65534:65534 "$LIB_SCRATCH"
    doze --version || skip "an ordinary user cannot read $hostile"
    : >daemon.log
    start
    all_fences
    every_kind u
    shared >expected
    diff expected rows
'
end
test_done
