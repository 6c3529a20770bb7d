#!/bin/bash
# The pack of an image is cut off on disk while sandboxes use it: programs get SIGBUS or EIO, the
# cell and the daemon live, and the log names the image. Needs `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
start
cell_id() { sed -n "s/.*event=cell_up .*pid=//p" daemon.log | tail -1; }
cut_off() { # BYTES are left of the pack: a copy of ours in the place of the link
    pack=$(ls -S data/images/packs/* | head -1) && cat "$pack" >whole && chmod u+w "$pack" && truncate -s "$1" "$pack"
}
own_images() { # the links become copies, so that other tests keep theirs
    local f
    for f in data/images/packs/*; do cp "$f" copy && chmod u+w copy && mv -f copy "$f" || return 1; done
}

linux_test 'a sandbox whose programs and files are read' '
    own_images && created --name a && run 0 doze exec a -- bash -c "echo kept >/workspace/f; python3 --version" && cell_id >cell &&
    doze exec -d a -- bash -c "while :; do echo \$((++n)) >/workspace/n.new; mv /workspace/n.new /workspace/n; sleep 0.05; done" >id && until_true doze cat a:/workspace/n
'
linux_test 'after the cut, reading a file of the image is an error that names its pack, for the host and for programs' '
    [ -e cell ] || skip "there is no sandbox"
    cut_off 8192 && run 1 doze cat a:/usr/bin/git && status=0 && { doze exec a -- cat /usr/bin/git >out 2>err || status=$?; } && [ "$status" -ge 1 ] &&
    kill -0 "$(cat cell)"
'
linux_test 'programs that the cut concerns die, files of the sandbox are there, and its cell lives' '
    [ -e cell ] || skip "there is no sandbox"
    for i in 1 2 3; do doze exec a -- python3 -c "import json, decimal, sqlite3" >out 2>err || true; done
    kill -0 "$(cat cell)" && run 0 doze cat a:/workspace/f && [ "$(cat out)" = kept ] && run 0 doze files a:/workspace && has out f &&
    api 200 GET "$(s /a)" && has out "\"state\":\"active\"" && run 0 doze events a && lacks out crashed &&
    grep -q "event=process_stderr .*the pack of the image .* is damaged: it has lost its bytes from" daemon.log && created --name b || api 200 GET /readyz
'
linux_test 'with the pack restored, the sandbox wakes with its files' '
    [ -e cell ] || skip "there is no sandbox"
    cp whole copy && mv -f copy "$(ls -S data/images/packs/* | head -1)" && { doze rm --force b || true; } && run 0 doze suspend a && stop && start && run 0 doze exec a -- bash -c "cat f; python3 -c \"print(6 * 7)\"" && [ "$(cat out)" = "kept
42" ]
'
stop
test_done
