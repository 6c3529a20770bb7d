#!/bin/bash
# bash of Debian in a sandbox and on this machine: pipelines, signals, jobs, tools for files.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

test_that 'pipelines, redirections, here documents, coprocesses' '
    same bash pipes.bash && has out "status: 7 7 0"
'
test_that 'traps, signals, how a child ended' '
    same bash -c "bash traps.bash 2>/dev/null" && has out "at exit 3" && lacks out "not here"
'
test_that 'jobs, wait, process groups, locks' '
    same bash -c "bash jobs.bash 2>/dev/null" && has out "statuses: 148"
'
test_that 'files: links, times, archives, large directories' '
    same bash files.bash && has out "copied"
'
test_that 'what a script leaves behind is the status of the sandbox' '
    same bash -c "exit 42" && same bash -c "kill -9 \$\$" && same sh -c "echo \$0 \$# \$1" a b "c d" &&
    same /bin/bash -c "echo \$BASH_VERSION \$OSTYPE \$MACHTYPE" &&
    same sh -c "env | grep -vE \"^(HOSTNAME|LANG|PWD|_)=\" | sort"
'

test_done
