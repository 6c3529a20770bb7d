#!/bin/bash
# t0730-sanitizer.sh - a file-only cell of a build with a sanitizer whose reports go to a file. To
# say anything it must run with DOZE=build/asan-gcc/doze; in other builds there is nothing to report.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

export ASAN_OPTIONS=log_path=$PWD/report
start || exit 1

# AddressSanitizer warns at the first swapcontext() of a process, which a file operation makes.
test_that 'the files of a sleeping sandbox can be read while reports go to a file' '
    api 201 POST "$(s)" "{\"name\":\"a\",\"image\":\"base\"}" &&
    api 200 POST "$(s /a/suspend)" "{}" &&
    api 200 GET "$(s "/a/files/list?path=/")" && has out "\"workspace\"" &&
    lacks daemon.log event=cell_failed
'

stop
test_done
