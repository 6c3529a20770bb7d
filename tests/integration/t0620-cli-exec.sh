#!/bin/bash
# `doze exec`: whose options they are, standard input, --json, --timeout.
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
# field NAME: of the JSON in out
field() { python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"; }
doze create base -n web >/dev/null || exit 1

test_that 'options behind SANDBOX are those of doze, as far as the command or --' '
    run 0 doze exec web -e A=1 -w /tmp -- sh -c "echo \$A; pwd" && [ "$(cat out)" = "$(printf "1\n/tmp")" ] &&
    run 0 doze exec web -e A=2 sh -c "echo \$A \$0" -w && [ "$(cat out)" = "2 -w" ] &&
    run 0 doze exec -w /tmp web pwd && [ "$(cat out)" = /tmp ] && run 0 doze exec -- web -- printf %s -e && [ "$(cat out)" = "-e" ] &&
    run 2 doze exec web --nonsense true && has err "unknown option \"--nonsense\"" && run 2 doze exec web && run 2 doze exec web -i --
'
test_that 'sandbox create: options around IMAGE, and none of them after the first word of the command' '
    run 0 doze sandbox create base -p -n made -- sh -c "echo here >/workspace/f; sleep 100" && run 0 doze get made --json && has out "\"persistent\":true" &&
    run 0 doze sandbox create -p -n other --image base sh -c "echo there >/workspace/f; sleep 100" -n x && run 0 doze get other -q &&
    run 0 doze rm -qf made other
'
test_that 'standard input is /dev/null unless -i is given' '
    mkfifo pipe && exec 7<>pipe &&
    run 0 timeout 20 doze exec web -- sh -c "cat; echo end" <&7 && [ "$(cat out)" = end ] &&
    run 0 timeout 20 doze exec web -- sh -c "[ -c /proc/self/fd/0 ] && read x; echo \$?" <&7 && [ "$(cat out)" = 1 ] && exec 7>&- &&
    echo hi >in && run 0 doze exec -i web -- cat <in && [ "$(cat out)" = hi ] && run 0 doze exec web -i cat <in && [ "$(cat out)" = hi ]
'
test_that 'over the API: "stdin": false is /dev/null' '
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat; echo end\",\"stdin\":false}" && [ "$(field stdout)" = end ] &&
    api 200 POST "$(s /web/exec)" "{\"shell\":\"cat\",\"stdin\":\"text\"}" && [ "$(field stdout)" = text ]
'
test_that '--json: one object of what happened, and the same exit status' '
    run 3 doze exec --json web -- sh -c "echo out; echo err >&2; exit 3" && lines out 1 && empty err && [ "$(field exit_code)" = 3 ] && [ "$(field signal)" = None ] &&
    [ "$(field stdout)" = out ] && [ "$(field stderr)" = err ] && [ "$(field truncated)" = False ] && [ "$(field duration_ms)" -ge 0 ] && field exec_id | grep -q ^exe_ &&
    run 143 doze exec web --json -- sh -c "kill \$\$" && [ "$(field signal)" = TERM ] && [ "$(field exit_code)" = None ] &&
    run 0 doze exec --json web -- printf "a\\377b" && [ "$(field stdout_base64)" = Yf9i ] && run 0 doze exec --json -i web -- cat <in && [ "$(field stdout)" = hi ] &&
    run 127 doze exec --json web -- nosuch && empty out && has err nosuch && run 0 doze exec -d --json web -- sh -c "echo late; exit 4" && id=$(field exec_id) &&
    run 4 doze attach --no-stdin --json web "$id" && [ "$(field stdout)" = late ]
'
test_that '--json keeps a megabyte of each stream, and says when there was more' '
    run 0 doze exec --json web -- sh -c "seq 200000; seq 5 >&2" && [ "$(field truncated)" = True ] && field stderr | grep -q 5 && field stdout >kept && [ "$(wc -c <kept)" -eq $((1048576 + 1)) ]
'
test_that '--timeout that is over: a sentence, and 124' '
    run 124 doze exec --timeout 300ms web -- sleep 100 && lines err 1 && has err "it ran longer than its time limit, --timeout 300ms" && empty out &&
    run 124 doze exec web --timeout 300ms --json -- sh -c "echo first; sleep 100" && [ "$(field timed_out)" = True ] && [ "$(field stdout)" = first ] &&
    run 0 doze exec -d --timeout 300ms web -- sleep 100 && id=$(cat out) && run 124 doze attach --no-stdin web "$id" && has err "time limit" &&
    run 7 doze exec --timeout 60s web -- sh -c "exit 7" && empty err
'
test_that 'it ends clean' 'stop'
test_done
