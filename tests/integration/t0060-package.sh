#!/bin/bash
# what make install and make deb put where, and that a package goes as it came.
. "$(dirname "$0")/lib.sh"

test_that 'install puts program, pages, completion, unit and settings in place; settings stay' '
    run 0 "$LIB_ROOT/scripts/install" "$DOZE" "$PWD/dest" /usr/local && empty err &&
    run 0 dest/usr/local/bin/doze --version && has out "doze " &&
    run 0 doze config check dest/etc/doze/doze.ini && has dest/etc/doze/doze.ini "data = /var/lib/doze" &&
    zcat dest/usr/local/share/man/man1/doze-daemon.1.gz | grep -q "run the daemon in the foreground" &&
    zcat dest/usr/local/share/man/man5/doze.ini.5.gz | grep -q suspend_after &&
    has dest/usr/local/lib/systemd/system/doze.service "ExecStart=/usr/local/bin/doze daemon" &&
    [ -s dest/usr/local/share/bash-completion/completions/doze ] && [ -s dest/usr/local/share/zsh/site-functions/_doze ] &&
    [ -s dest/usr/local/share/fish/vendor_completions.d/doze.fish ] &&
    echo "# mine" >>dest/etc/doze/doze.ini && run 0 "$LIB_ROOT/scripts/install" "$DOZE" "$PWD/dest" /usr/local &&
    has dest/etc/doze/doze.ini "# mine"
'

test_that 'systemd takes the unit' '
    command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
    sed "s,ExecStart=[^ ]*,ExecStart=$DOZE,; /^User=/d; /^Group=/d; /^Documentation=/d" dest/usr/local/lib/systemd/system/doze.service >doze.service
    systemd-analyze verify "$PWD/doze.service" >said 2>&1; grep "doze.service" said >about || :; empty about
'

# A root of its own; the scripts of the package know it as DPKG_ROOT.
pkg() { dpkg --root="$PWD/root" --force-not-root --force-script-chrootless --force-depends --log=/dev/null "$@" >out 2>&1 || { cat out; return 1; }; }

test_that 'the package installs, upgrades, and goes: settings with a purge, sandboxes never' '
    command -v dpkg-deb >/dev/null || skip "no dpkg"
    mkdir -p deb root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/lib/dpkg/triggers && touch root/var/lib/dpkg/status &&
    "$LIB_ROOT/scripts/deb" "$DOZE" 0.1.0 deb >name && deb=$(cat name) && [ -s "$deb" ] &&
    dpkg-deb -f "$deb" Depends >depends && has depends libsqlite3-0 && has depends libssl3 &&
    [ -z "$(dpkg-deb -c "$deb" | grep -v " root/root ")" ] &&
    pkg -i "$deb" && run 0 root/usr/bin/doze --version && has root/usr/share/doze/base.ini "from = /usr/share/doze/base.doze" && [ -d root/var/lib/doze ] &&
    [ "$(stat -c %a root/var/lib/doze)" = 700 ] && [ "$(cat root/var/lib/doze/service)" = doze ] &&
    (cd root && md5sum --quiet -c var/lib/dpkg/info/doze.md5sums) &&
    echo "# mine" >>root/etc/doze/doze.ini && pkg --force-confold -i "$deb" && has root/etc/doze/doze.ini "# mine" &&
    touch root/var/lib/doze/registry.db &&
    pkg -r doze && [ ! -e root/usr/bin/doze ] && [ -e root/etc/doze/doze.ini ] &&
    pkg -P doze && [ ! -e root/etc/doze ] && [ -e root/var/lib/doze/registry.db ] &&
    find root -type f -not -path "*/dpkg/*" >left && lines left 1
'

test_that 'a purge leaves nothing where no sandbox was' '
    command -v dpkg-deb >/dev/null || skip "no dpkg"
    rm root/var/lib/doze/registry.db && pkg -i "$(cat name)" && pkg -P doze &&
    find root -type f -not -path "*/dpkg/*" >left && empty left && [ ! -e root/var/lib/doze ]
'

test_done
