# Programs for WebAssembly: test and bench programs, the POSIX layer, the base image.
#
# Freestanding C for WebAssembly, the same for every CONFIG; what old engines
# would not read (multi-value, the long form of table indices) is off. Linked in
# a step of its own, for in one clang also runs wasm-opt where it finds it, and
# that does not know returns_twice.
GUEST_CC := clang-19 --target=wasm32 -std=gnu17 -O2 -Wall -Wextra -Werror \
  -mno-reference-types -mno-multivalue
GUEST_LD := wasm-ld-19 --no-entry -z stack-size=65536
BENCH_GUESTS := $(patsubst bench/wasm/%.c,%.wasm,$(filter-out %_main.c,$(wildcard bench/wasm/*.c)))
GUESTS   := $(patsubst tests/guests/%.c,build/guests/%.wasm,$(wildcard tests/guests/*.c)) \
  $(BENCH_GUESTS:%=build/guests/bench/%) $(BENCH_GUESTS:%=build/guests/libc/%)
guests: $(GUESTS) ## the test and bench programs that are compiled to WebAssembly
GUEST_FLAGS_bulk := -mbulk-memory
build/guests/%.wasm: tests/guests/%.c $(wildcard tests/guests/*.h)
	@mkdir -p $(@D)
	$(GUEST_CC) $(GUEST_FLAGS_$*) -c $< -o $(@:.wasm=.o)
	$(GUEST_LD) $(@:.wasm=.o) -o $@
build/guests/bench/%.wasm: bench/wasm/%.c bench/wasm/guest.h
	@mkdir -p $(@D)
	$(GUEST_CC) -c $< -o $(@:.wasm=.o)
	$(GUEST_LD) $(@:.wasm=.o) -o $@
build/guests/libc/%.wasm: bench/wasm/%.c bench/wasm/guest.h tests/freeze/guest_libc.c
	@mkdir -p $(@D)
	clang-19 --target=wasm32-wasi -std=gnu17 -D_GNU_SOURCE -O1 -nostartfiles -Wl,--no-entry \
	    -DPROGRAM='"../../$<"' tests/freeze/guest_libc.c -o $@
build/guests/bench/%: bench/wasm/%.c bench/wasm/native_main.c bench/wasm/guest.h
	@mkdir -p $(@D)
	clang-19 -std=gnu17 -O2 -fno-math-errno -DBENCH_NATIVE -Wall -Wextra -Werror $(filter %.c,$^) -o $@

# --- programs that run inside a sandbox ----------------------------------------
GUEST_TESTS  := $(patsubst guest/tests/%.c,%,$(wildcard guest/tests/t_*.c))
GUEST_PARTS  := $(wildcard guest/lib/* guest/include/*.h guest/include/*/*.h packaging/deb/*) \
  guest/build guest/doze-cc guest/fetch-source
GUEST_CFLAGS := -std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror
build/guest-sys/lib/libposix.o: $(GUEST_PARTS)
	guest/build build/guest-sys
build/guest-tests/%.wasm: guest/tests/%.c guest/tests/check.h build/guest-sys/lib/libposix.o
	@mkdir -p $(@D)
	build/guest-sys/doze-cc $(GUEST_CFLAGS) $< -o $@
build/guest-native/%: guest/tests/%.c guest/tests/check.h
	@mkdir -p $(@D)
	gcc $(GUEST_CFLAGS) $< -o $@
guest: $(GUEST_TESTS:%=build/guest-tests/%.wasm) ## the POSIX layer, and its tests as modules
guest-native: $(filter-out %/t_absent,$(GUEST_TESTS:%=build/guest-native/%)) ## the same tests natively
	@scripts/run-tap guest-native $^
build/guest-sandbox/%: build/guest-tests/%.wasm build/base/base.doze $(B)/doze
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec %s run -b %s -c %s:/bin/%s -- %s\n' $(abspath $(B)/doze build/base/base.doze $<) $* $* >$@
	@chmod +x $@
guest-sandbox: $(GUEST_TESTS:%=build/guest-sandbox/%) ## the same tests inside a sandbox
	@scripts/run-tap guest-sandbox $^
busybox-suite: build/base/base.doze ## busybox's own tests in a sandbox, compared with a native build; NAMES=
	@guest/busybox-suite $(B)/doze $< $(NAMES)
busybox-suite-linux: $(B)/doze ## busybox's own tests by native programs in the image debian (make test-images); NAMES=
	@DOZE_DATA=build/data SUITE_ON=linux guest/busybox-suite $(B)/doze - $(NAMES)
base: build/base/base.doze ## the root that sandboxes start from, from Debian's sources
BASE_PARTS := $(wildcard guest/base/* guest/base/etc/* guest/programs/*)
build/base/base.doze: $(B)/doze build/guest-sys/lib/libposix.o $(BASE_PARTS)
	guest/base/build $(B)/doze build/guest-sys $@
test-images: export DOZE_DATA = build/data
images test-images: base ## the images base, python, js and debian, in DOZE_DATA (test-images: in build/data)
	@images/build $(B)/doze
test-image-dev: test-images ## the image dev for tests, too: gcc, go, node, numpy, pandas; fetches 170 MB
	@DOZE_DATA=build/data images/build $(B)/doze dev
image-code: $(B)/doze ## the image code, in DOZE_DATA: python, pandas, node, gcc, git, ...; fetches 220 MB
	@images/build $(B)/doze debian code && images/asleep $(B)/doze
.PHONY: guests guest guest-native guest-sandbox busybox-suite busybox-suite-linux base images test-images \
  test-image-dev image-code
