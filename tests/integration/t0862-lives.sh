#!/bin/bash
# What a deleted sandbox leaves (L10): nothing. Random lives of sandboxes, LIVES of them (50) by SEED;
# before and after them the data directory, the registry and the processes of the daemon are the same.
# `make lives` runs a thousand. Needs `make base`, python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }
lives() { python3 "$LIB_ROOT/tests/lib/lives.py" "$@"; }
processes() { [ "$(lives processes "$(cat daemon.pid)")" -le "$1" ]; }
SEED=${SEED:-1} LIVES=${LIVES:-50}

test_that "$LIVES random lives leave no file, no row and no process (SEED=$SEED)" '
    start && lives "$SOCK" "$(cat daemon.pid)" 5 "$SEED" && stop && lives state data | sort >before && start && lives "$SOCK" "$(cat daemon.pid)" 1 "$SEED" && most=$(lives processes "$(cat daemon.pid)") &&
    lives "$SOCK" "$(cat daemon.pid)" "$LIVES" $((SEED + 1)) && until_true processes "$most" && api 200 GET /v1/sandboxes && has out "\"sandboxes\":[]" && stop && lives state data | sort >after && diff before after
'
test_that 'an id that was deleted is gone for a day, and its name is free at once' '
    start && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"again\"}" && id=$(grep -oE "sbx_[a-z0-9]{20}" out | head -1) && api 204 DELETE "$(s "/again?force=true")" && api 410 GET "$(s "/$id")" && has out "\"code\":\"gone\"" && api 404 GET "$(s /again)" &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"again\"}" && api 204 DELETE "$(s "/again?force=true")" && stop
'
test_done
