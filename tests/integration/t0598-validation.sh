#!/bin/bash
# Every field of every body and query, said wrongly: refused by its name, and nothing is made.
# Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }
start || exit 1
test_that 'what is wrong is refused by its field, and nothing is made' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"box\"}" &&
    python3 "$LIB_ROOT/tests/lib/wrong_fields.py" "$SOCK" box >seen || { cat seen; false; }
'
test_that 'the sandbox is as it was' '
    api 200 GET "$(s /box)" && has out "\"state\":\"active\"" && has out "\"timeout\":null" && has out "\"labels\":{}" &&
    api 200 POST "$(s /box/exec)" "{\"shell\":\"ls /workspace\"}" && has out "\"stdout\":\"\"" && stop
'
test_done
