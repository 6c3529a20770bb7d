# SPDX-License-Identifier: MIT
"""run_wasmtime.py FILE N prints run(N) of FILE by wasmtime; without arguments it only starts."""
import sys

import wasmtime

if len(sys.argv) == 3:
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, sys.argv[1])
    print(wasmtime.Instance(store, module, []).exports(store)["run"](store, int(sys.argv[2])))
