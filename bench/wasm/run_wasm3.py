# SPDX-License-Identifier: MIT
"""run_wasm3.py FILE N prints run(N) of FILE by wasm3; without arguments it only starts."""
import sys

import wasm3

if len(sys.argv) == 3:
    env = wasm3.Environment()
    runtime = env.new_runtime(1 << 20)
    with open(sys.argv[1], "rb") as f:
        runtime.load(env.parse_module(f.read()))
    print(runtime.find_function("run")(int(sys.argv[2])))
