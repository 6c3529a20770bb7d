#!/bin/bash
# config: where settings come from, what is refused, and a daemon that reads them again.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
unset DOZE_DATA DOZE_CONFIG DOZE_LOG_LEVEL

test_that 'config shows every setting with its default, as text and as JSON' '
    run 0 doze config && empty err && has out "SETTING" &&
    has out "$HOME/.local/share/doze/doze.sock" &&
    [ "$(grep -c " default$" out)" -eq "$(($(wc -l <out) - 1))" ] &&
    run 0 doze config --json && lines out 1 &&
    [ "$(sqlite3 :memory: "select readfile(\"out\") ->> \"$.settings\" ->> \"$.\"\"log.level\"\".origin\"")" = default ] &&
    run 0 doze config log.level && [ "$(cat out)" = info ] &&
    run 2 doze config log.levle && has err "did you mean log.level"
'

test_that 'the file is found, its line is named, and the environment counts more' '
    mkdir -p "$HOME/.config/doze" && printf "[log]\nlevel = warn\n" >"$HOME/.config/doze/doze.ini" &&
    run 0 doze config && grep -qE "^log.level +warn +$HOME/.config/doze/doze.ini:2$" out &&
    DOZE_LOG_LEVEL=error run 0 doze config && grep -qE "^log.level +error +DOZE_LOG_LEVEL$" out &&
    printf "[log]\nlevel = debug\n" >other.ini &&
    DOZE_CONFIG=$PWD/other.ini run 0 doze config log.level && [ "$(cat out)" = debug ] &&
    run 0 doze config --config other.ini log.level && [ "$(cat out)" = debug ] &&
    XDG_CONFIG_HOME=/nowhere run 0 doze config log.level && [ "$(cat out)" = info ] &&
    run 1 doze config --config nowhere.ini && has err nowhere.ini &&
    rm "$HOME/.config/doze/doze.ini"
'

test_that 'check says which line is wrong; a daemon does not start with it' '
    printf "[log]\nlevel = info\n" >good.ini && run 0 doze config check good.ini && empty out && empty err &&
    printf "[log]\n\nlevle = info\n" >bad.ini && run 1 doze config check bad.ini &&
    has err "doze: bad.ini:3: no key \"levle\" in [log]; did you mean level?" &&
    run 1 doze daemon --data d --config bad.ini && has err "bad.ini:3" && [ ! -e d ] &&
    run 2 doze daemon --data d --ahead 0 && has err "--ahead: cells.ahead must be a number from 1 to 256" && [ ! -e d ]
'

test_that 'defaults is a file that check takes, with all that config shows' '
    run 0 doze config defaults && cp out defaults.ini && run 0 doze config check defaults.ini &&
    sed "s/^#\([^ ]\)/\1/" defaults.ini >said.ini && run 0 doze config check said.ini &&
    [ "$(grep -c "^[a-z]" said.ini)" -eq "$(doze config | tail -n +2 | wc -l)" ]
'

# logged TEXT: a line of the log has it, within ten seconds
logged() {
    for _ in $(seq 200); do
        grep -qF "$1" daemon.log && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "not logged: $1"
    cat daemon.log
    return 1
}
hangup() { kill -HUP "$(cat daemon.pid)"; }

test_that 'SIGHUP reads the file again: what can, the rest by name, and a bad file not at all' '
    export DOZE_DATA=$PWD/data
    printf "[log]\nlevel = info\n" >doze.ini
    doze daemon --config doze.ini >>daemon.log 2>&1 & echo $! >daemon.pid
    logged event=daemon_ready && lacks daemon.log level=debug &&
    printf "[log]\nlevel = debug\nformat = json\n[cells]\nahead = 3\n[ladder]\nsuspend_after = 100ms\n" >doze.ini &&
    hangup && logged "\"event\":\"config_reloaded\"" &&
    has daemon.log "event=setting_changed setting=log.level value=debug" &&
    has daemon.log "event=setting_needs_restart setting=cells.ahead" &&
    api 201 POST "$(s)" "{\"name\":\"a\",\"image\":\"base\"}" && until_state a suspended &&
    logged "\"level\":\"debug\"" &&
    printf "[log]\nlevel = quiet\n" >doze.ini &&
    hangup && logged "config_not_reloaded" && has daemon.log "doze.ini:2: log.level must be" &&
    api 200 GET /readyz && stop
'

test_done
