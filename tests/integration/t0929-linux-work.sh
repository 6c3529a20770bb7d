#!/bin/bash
# Work that people do in a sandbox: packages installed by apt, a repository of 5,000 files cloned.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

test_that 'apt installs packages of a local archive with their scripts and triggers, and purges them' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    run 0 in_sandbox bash apt.bash
    grep -qx "one: configure " out && grep -q "^Processing triggers for libc-bin" out
    grep -qx "Status: install ok installed" out && grep -qx "one runs: setting" out
    grep -qx "Unpacking two (2.1) over (2.0) ..." out && grep -qx /usr/share/two/newer out
    grep -qx "dpkg-query: package .one. is not installed and no information is available" out
    [ "$(tail -n 1 out)" = 2 ]
'
test_that 'git clones a repository of 5,000 files, pulls, packs' '
    same bash clone.bash && has out 5000
'

test_done
