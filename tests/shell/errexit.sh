# set -e, set -u, statuses of what cannot be run.
sh -c 'set -e; false; echo no'; echo $?
sh -c 'set -e; f() { false; echo in; }; f; echo no'; echo $?
sh -c 'set -e; if false; then :; fi; false || true; ! true; echo yes'; echo $?
sh -c 'set -e; (false); echo no'; echo $?
sh -c 'set -e; x=$(false); echo no'; echo $?
sh -c 'set -e; false | true; echo pipe'; echo $?
sh -c 'set -u; echo $nothing' 2>/dev/null; echo $?
nothing-there 2>/dev/null; echo $?
/etc/passwd 2>/dev/null; echo $?
sh missing-script 2>/dev/null; echo $?
sh -c 'exit 300'; echo $?
sh -c 'kill $$; sleep 1' 2>/dev/null; echo $?
sh -n -c 'if' 2>/dev/null; echo $?
sh -c 'echo $0 $1' name arg; echo 'echo script $1 $#' >s; chmod +x s; ./s a b; sh s c
printf '#!/bin/sh -e\nfalse\necho no\n' >t; chmod +x t; ./t; echo $?
printf '#!/bin/cat\nbody\n' >u; chmod +x u; ./u
printf '#!/nowhere\n' >w; chmod +x w; ./w 2>/dev/null; echo $?
sh -x -c 'x=1; echo $x' 2>&1
exec sh -c 'echo replaced'
