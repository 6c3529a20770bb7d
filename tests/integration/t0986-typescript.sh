#!/bin/bash
# The TypeScript client: its types, real sessions, all bodies held against the contract by a proxy, and a
# daemon that dies under it. The blocks of docs/guide/typescript.md run, too. Needs `make base` and node;
# native programs need the image debian, the types tsc (make bench-peers).
. "$(dirname "$0")/lib.sh"
if ! command -v node >/dev/null; then
    test_that 'a session' 'skip "there is no node"'
    test_done
fi
. "$LIB_ROOT/tests/integration/clients.sh"
mkdir node_modules && cp -r "$LIB_ROOT/clients/typescript" node_modules/doze && cp "$LIB_ROOT"/tests/clients/ts_session.mjs .

# shellcheck disable=SC2034
tsc=$DOZE_PEERS/clients/node_modules/.bin/tsc types=$DOZE_PEERS/clients/node_modules/@types
test_that 'tsc finds nothing, and its declarations serve a program in TypeScript' '
    [ -x "$tsc" ] || skip "tsc is not there: make bench-peers"
    (cd node_modules/doze && "$tsc" -p . --typeRoots "$types") && cat >user.mts <<"T" &&
import { Sandbox, type CommandResult, init, attachSandbox, NotFoundError } from "doze";
const s: Sandbox = await Sandbox.create({ image: "base", memory: "512MB" });
const r: CommandResult = await s.commands.run("true", { onStdout: (t: string) => t.length });
const h = await s.commands.run(["cat"], { background: true, stdin: true });
for await (const piece of h) console.log(piece.text, r.exitCode);
const agent = await init({ sandbox: attachSandbox(await (await (await init()).session("a")).sandboxRef()), idleSuspendMs: 5 });
const code: string = new NotFoundError("x").code;
console.log(agent, code, (await (await s.fork()).files.list()).map((f) => f.path));
T
    "$tsc" --noEmit --strict --skipLibCheck --module node16 --target es2022 --typeRoots "$types" user.mts &&
    echo "import { Sandbox } from \"doze\"; Sandbox.create({ imagee: 1 });" >wrong.mts && ! "$tsc" --noEmit --strict --skipLibCheck --module node16 --target es2022 --typeRoots "$types" wrong.mts >out && has out imagee
'
test_that 'the package is packed, and has no dependency' '
    (cd node_modules/doze && npm pack --silent --pack-destination ../..) >out 2>&1 && tar -tzf doze-0.1.0.tgz >list && has list package/src/index.js && lacks "$LIB_ROOT/clients/typescript/package.json" ependencies &&
    v=$(node -p "require(\"./node_modules/doze/package.json\").version") && doze --version >out && has out "doze $v"
'
test_that 'the blocks of the guide run as they stand' '
    python3 "$LIB_ROOT/tests/clients/guide_code.py" "$LIB_ROOT/docs/guide/typescript.md" js >guide.mjs && grep -q create guide.mjs && DOZE_URL=$DIRECT timeout 100 node guide.mjs
'
session node ts_session.mjs
test_done
