#!/bin/bash
# Meters (Q2): what sandboxes, snapshots and tenants have occupied, recounted from events; money;
# over the death of a daemon; of what was deleted. Needs `make base`, python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }

# holds EXPRESSION: of the JSON in out, as d, with exact numbers
holds() {
    python3 -c "
import json, sys
from decimal import Decimal
d = json.load(open('out'), parse_float=Decimal, parse_int=Decimal)
if not ($1):
    sys.exit('not true: $1\n%s' % d)"
}
priced() { start --price-currency EUR --price-memory 3.6 --price-storage-active 36 --price-storage-asleep 0.36 --price-snapshots 7.2; }

# The recount: the time in each state from the events alone, in milliseconds, up to now or the end.
cat >recount.py <<'END'
import datetime, json, sys
from decimal import Decimal
STATE = {"registered": "created", "activated": "active", "suspended": "suspended", "frozen": "frozen", "archived": "archived"}
ms = lambda text: round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
def exact(name):
    return json.load(open(name), parse_float=Decimal, parse_int=Decimal)
spent, state, since = {}, None, 0
usage = exact("usage")
for e in exact("events")["events"]:
    if e["type"] not in STATE and e["type"] != "deleted":
        continue
    at = ms(e["at"])
    if state:
        spent[state] = spent.get(state, 0) + at - since
    state, since = STATE.get(e["type"]), at
if state:
    spent[state] = spent.get(state, 0) + ms(usage["total"]["to"]) - since
states = usage["total"]["states"]
got = {k: int(v["seconds"] * 1000) for k, v in states.items() if k != "snapshot"}
spent = {k: v for k, v in spent.items() if v}
memory = Decimal(spent.get("active", 0)) * (64 << 20) / 10**12
assert got == spent, (got, spent)
assert usage["total"]["memory_gb_seconds"] == memory == states["active"]["memory_gb_seconds"], (usage, memory)
assert all(v["memory_gb_seconds"] == 0 for k, v in states.items() if k != "active"), states
assert sum(v["storage_gb_seconds"] for v in states.values()) == usage["total"]["storage_gb_seconds"] > 0, usage
assert all(states[k]["storage_gb_seconds"] > 0 for k in ("active", "suspended", "frozen")), states
END
recount() { api 200 GET "$(s "/$1/usage")" && cp out usage && python3 recount.py; }
events_of() { api 200 GET "$(s "/$1/events?limit=1000")" && cp out events; }
cycle() { api 200 POST "$(s "/$1/suspend")" && api 200 POST "$(s "/$1/wake")"; }

test_that 'time by state and memory agree with a recount from events, to the millisecond' '
    priced && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\",\"memory\":\"64MiB\"}" && grep -oE "sbx_[a-z0-9]{20}" out | head -1 >web &&
    for i in 1 2 3; do cycle web || exit 1; done && api 200 POST "$(s /web/suspend)" && api 200 POST "$(s /web/freeze)" && api 200 POST "$(s /web/wake)" && cycle web && events_of web && recount web
'
test_that 'amounts are the sums times the prices' '
    python3 - <<END
import json
from decimal import Decimal
d = json.load(open("usage"), parse_float=Decimal, parse_int=Decimal)
for name, s in d["total"]["states"].items():
    price = {"active": 36, "snapshot": Decimal("7.2")}.get(name, Decimal("0.36"))
    amount = s["memory_gb_seconds"] * Decimal("3.6") / 3600 + s["storage_gb_seconds"] * price / 3600
    assert 0 <= amount - s["amount"] < Decimal("2e-9"), (name, s, amount)
assert d["currency"] == "EUR" and d["total"]["amount"] == sum(s["amount"] for s in d["total"]["states"].values()) > 0, d
END
'
test_that 'periods add up to the whole; as CSV, too; a tenant is the sum of its sandboxes' '
    api 200 POST "$(s /web/suspend)" && api 201 POST "$(s /web/snapshot)" "{\"name\":\"kept\"}" && now=$(date -u +%FT%TZ -d "+2 seconds") && from=$(date -u +%FT%TZ -d "-120 seconds") &&
    api 200 GET "$(s "/web/usage?from=$from&to=$now&step=1s")" && cp out one && api 200 GET "/v1/tenants/self/usage?from=$from&to=$now&step=1s&format=csv" && cp out csv && python3 - <<END
import csv, json
from decimal import Decimal
d = json.load(open("one"), parse_float=Decimal, parse_int=Decimal)
assert len(d["periods"]) == 122, len(d["periods"])
for key in ("memory_gb_seconds", "storage_gb_seconds"):
    assert sum(p[key] for p in d["periods"]) == d["total"][key] > 0, key
rows = list(csv.DictReader(open("csv", newline="")))
for key in ("seconds", "memory_gb_seconds"):
    want = sum(p["states"].get("active", {key: 0})[key] for p in d["periods"])
    got = sum(Decimal(r[key]) for r in rows if r["state"] == "active")
    assert got == want > 0, (key, got, want)
assert {r["currency"] for r in rows} == {"EUR"}, rows
assert any(r["state"] == "snapshot" and Decimal(r["storage_gb_seconds"]) > 0 for r in rows)
END
'
test_that 'doze usage: a table, CSV, JSON; of a sandbox, a tenant' '
    run 0 doze usage web && grep -q "^FROM .*STATE .*MEMORY" out && grep -q " active .* EUR$" out && run 0 doze usage --csv --step 1h && has out "from,to,state,seconds" && has out ",active," &&
    run 0 doze usage --json --tenant default && holds "d[\"sandbox_id\"] is None and d[\"total\"][\"states\"][\"active\"][\"seconds\"] > 0" && run 2 doze usage web --tenant default && run 1 doze usage none && has err none
'
test_that 'what cannot be asked is refused by the name of the parameter' '
    for q in from=yesterday to=now step=0s step=fast format=xml "from=2030-01-01T00:00:00Z&to=2029-01-01T00:00:00Z" "from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z&step=1s"; do
        for p in "$(s /web/usage)" /v1/tenants/self/usage; do api 400 GET "$p?$q" && has out "\"field\":\"" || exit 1; done
    done && api 404 GET "$(s /none/usage)" && api 400 GET "/v1/tenants/no%20name/usage"
'
test_that 'a daemon that was killed: the journal is whole, and memory ends with it' '
    api 200 POST "$(s /web/wake)" && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && priced && api 200 GET "$(s /web/usage)" && cp out before &&
    api 200 POST "$(s /web/wake)" && api 200 POST "$(s /web/suspend)" && api 200 GET "$(s /web/usage)" && cp out after && api 200 GET "$(s /web/usage)" && python3 - <<END
import json
from decimal import Decimal
read = lambda n: json.load(open(n), parse_float=Decimal, parse_int=Decimal)["total"]["states"]
before, after, last = read("before"), read("after"), read("out")
assert before["active"]["seconds"] <= after["active"]["seconds"] == last["active"]["seconds"], (before, after, last)
assert after["suspended"]["seconds"] <= last["suspended"]["seconds"], (after, last)
END
'
test_that 'a deleted sandbox keeps its usage, by its id; its snapshot goes on until it is deleted' '
    web=$(cat web) && events_of web && api 204 DELETE "$(s "/web?force=true")" && api 404 GET "$(s /web/usage)" && api 200 GET "$(s "/$web/usage")" && cp out one && api 200 GET "$(s "/$web/usage")" &&
    python3 - <<END
import json
from decimal import Decimal
read = lambda n: json.load(open(n), parse_float=Decimal, parse_int=Decimal)["total"]["states"]
one, two = read("one"), read("out")
assert one["snapshot"]["seconds"] <= two["snapshot"]["seconds"], (one, two)
assert {k: v for k, v in one.items() if k != "snapshot"} == {k: v for k, v in two.items() if k != "snapshot"}, (one, two)
END
'
test_that 'another tenant learns nothing; the operator sees every tenant' '
    run 0 doze token create other --tenant other && t=$(cat out) && code() { curl -sS --unix-socket "$SOCK" -H "Authorization: Bearer $t" -o out -w "%{http_code}" "http://d$1"; } &&
    [ "$(code "$(s "/$(cat web)/usage")")" = 404 ] && [ "$(code /v1/tenants/default/usage)" = 404 ] && [ "$(code /v1/tenants/self/usage)" = 200 ] && holds "d[\"tenant\"] == \"other\" and d[\"total\"][\"states\"] == {}" && api 200 GET /v1/tenants/other/usage
'
test_that 'counters for Prometheus grow' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"two\"}" && grown() { api 200 GET /metrics && [ "$(sed -n "s/^doze_memory_byte_seconds_total \([0-9]*\).*/\1/p" out)" -gt 0 ]; } && until_true grown && has out "doze_storage_byte_seconds_total{state=\"active\"}"
'
test_that 'without prices there are no amounts; a price without a currency, or that is none, ends the start' '
    stop && start && api 200 GET /v1/tenants/self/usage && holds "d[\"currency\"] is None and d[\"total\"][\"amount\"] is None" && stop &&
    run 1 doze daemon --price-memory 1 && has err "prices.currency" && for p in -1 1.2.3 .5 5. 1e3 1.0123456789 10000000; do run 1 doze daemon --price-currency EUR --price-memory "$p" && has err "prices.memory" || exit 1; done
'
test_done
