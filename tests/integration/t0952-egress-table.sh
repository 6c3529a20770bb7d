#!/bin/bash
# Egress rules against real servers: each target under each set of rules (tests/lib/egress_table.py). Needs
# `make test-images`.
. "$(dirname "$0")/egress_daemon.sh"
[ -z "$world" ] || start --egress-mode deny_all --egress-local-cidrs 10.77.0.0/16,10.79.0.0/16 --egress-resolvers 10.77.0.1 --egress-deny-domains bad.test
net_test 'each target under each set of rules is reached or refused' '
    run 0 python3 "$LIB_ROOT/tests/lib/egress_table.py" && has out "cases 310 wrong 0" || { cat out; exit 1; }
'
test_done
