# One Makefile, no configure step. `make help` lists the targets.
#   make CC=clang-19 CONFIG=asan check      one build directory per CONFIG and CC
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
CONFIG  ?= debug
B       := build/$(CONFIG)-$(notdir $(CC))
CLANG   ?= clang-14
PREFIX  ?= /usr/local
VERSION := 0.1.0
# $(call cc-option,-fx) is -fx when the compiler takes it, else nothing
cc-option = $(shell $(CC) $(1) -Werror -x c -c /dev/null -o /dev/null 2>/dev/null && echo $(1))

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wvla -Wundef \
        -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wwrite-strings \
        -Wpointer-arith -Wcast-qual -Wformat=2 -Wdouble-promotion -Wnull-dereference \
        -Wswitch-enum -Wimplicit-fallthrough -Werror
WARN += $(if $(findstring clang,$(CC)),-Wno-gnu -Wcomma -Wunreachable-code $(call cc-option,-Wno-c23-extensions),-Wlogical-op -Wduplicated-cond -Wduplicated-branches -Walloc-zero -Wno-pedantic)
HARDEN := -fstack-protector-strong -fno-common -fno-strict-aliasing -fPIE

OPT_debug   := -Og -g3
OPT_lint    := -O0 -w
# -Wnull-dereference sees through inlining at -O2 and no assertion calms it: -Og and -fanalyzer check that
OPT_release  = -O2 -g -D_FORTIFY_SOURCE=2 -Wno-null-dereference $(call cc-option,-ftrivial-auto-var-init=zero)
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread
OPT_cover   := -O0 -g --coverage
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all

CPPFLAGS := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DDZ_VERSION='"$(VERSION)"' -Isrc -MMD -MP
CFLAGS   := -std=gnu17 $(WARN) $(HARDEN) $(OPT_$(CONFIG))
LDFLAGS  := -pie -Wl,-z,relro,-z,now $(filter -fsanitize% --coverage,$(OPT_$(CONFIG)))

# A module is a directory of src/. NEEDS_x: the modules it may use; this drives
# linking, unit tests and scripts/check-layers. SYS_x: its system libraries.
MODULES    := base config tls wasm db os cli vfs kernel wasi machine cell lifecycle registry blob cold loop keeper image http metrics client engine api daemon
NEEDS_os   := base
NEEDS_config := base
NEEDS_cli  := base os client
# what files cli/local_* may use besides
NEEDS_cli_local := config db vfs wasm kernel cell machine lifecycle loop registry blob cold keeper image daemon
NEEDS_wasm := base
NEEDS_db   := base
NEEDS_vfs  := base db
NEEDS_kernel := base wasm vfs
NEEDS_wasi := base vfs wasm kernel
NEEDS_lifecycle := base
NEEDS_registry := base db
NEEDS_loop := base
NEEDS_tls  := base
NEEDS_http := base loop tls
NEEDS_metrics := base
NEEDS_client := base tls
NEEDS_blob := base
NEEDS_cold := base blob
NEEDS_keeper := base loop lifecycle registry blob cold
NEEDS_machine := base db vfs kernel wasm
NEEDS_cell := base os db wasm kernel wasi vfs machine blob cold
NEEDS_image := base os db vfs wasm kernel cell machine
NEEDS_engine := base os db kernel vfs loop lifecycle registry blob cold keeper cell image
NEEDS_api := base loop lifecycle registry keeper cell image http metrics engine
NEEDS_daemon := base config os loop lifecycle cell http engine api
$(foreach l,base.-lcrypto tls.-lcrypto os.-lseccomp wasm.-lm db.-lsqlite3 loop.-luv cold.-lzstd machine.-llz4 image.-linih+-lz config.-linih engine.-ljansson api.-ljansson \
  http.-lwslay+-lcrypto client.-lwslay+-ljansson,$(eval SYS_$(basename $(l)) := $(subst +, ,$(patsubst .%,%,$(suffix $(l))))))

# A program x: SRC_x (files with a main among them), NEEDS_x, SYS_x.
program    = $(eval PROGRAMS += $(1))$(eval SRC_$(1) := $(2))$(eval NEEDS_$(1) := $(3))
$(call program,doze,src/cli/main.c,cli)
$(foreach p,model/views_vfs model/host_vfs torture/torture_vfs,$(call program,$(notdir $(p)),tests/$(p).c,vfs))
$(call program,model_vfs,$(addprefix tests/model/,model_vfs.c model_ops.c model_more.c model_world.c ramfs.c),vfs)
$(call program,spec,$(addprefix tests/spec/,spec_main.c spec_run.c spec_host.c spec_value.c),wasm)
SLEEP      := sleep_anywhere sleep_soak
$(foreach p,$(SLEEP),$(call program,$(p),tests/sleep/$(p).c tests/sleep/sleep_rig.c,cell))
FREEZE     := freeze freeze_proc freeze_spec
$(foreach p,$(FREEZE),$(call program,$(p),$(addprefix tests/freeze/,$(p).c freeze_world.c freeze_fresh.c),wasm))
$(call program,soak_daemon,$(addprefix tests/soak/,soak_main.c soak_host.c soak_client.c),client os)
$(call program,wasi_suite,tests/wasi/wasi_suite.c,cell)
$(call program,kill,$(addprefix tests/kill/,kill_main.c kill_rig.c kill_calls.c),keeper vfs cell)
$(call program,sim,$(addprefix tests/sim/,sim_main.c sim_world.c sim_cells.c sim_registry.c sim_store.c),keeper)
$(call program,canned,tests/web/canned.c,http)$(call program,load,tests/load/load.c,)
$(foreach p,spec freeze_spec wasi_suite canned,$(eval SYS_$(p) := -ljansson))
# bench/bench_x.c, run by `make bench-x`.
BENCHES    := spawn db disk wasm run sleep cell lifecycle images daemon
$(foreach n,wasm.wasm sleep.image cell.cell db.db disk.vfs lifecycle.keeper,$(eval NEEDS_bench_$(basename $(n)) := $(patsubst .%,%,$(suffix $(n)))))

deps  = $(sort $(1) $(foreach m,$(NEEDS_$(1)) $(NEEDS_$(1)_local),$(call deps,$(m))))
libs  = $(patsubst %,$(B)/lib%.a,$(filter $(MODULES),$(call deps,$(1))))
sys   = $(sort $(foreach m,$(call deps,$(1)),$(SYS_$(m))))
obj   = $(patsubst %.c,$(B)/%.o,$(filter-out src/$(1)/main.c %/template_main.c,$(wildcard src/$(1)/*.c)))
group = -Wl,--start-group $(1) -Wl,--end-group

LIBS     := $(MODULES:%=$(B)/lib%.a)
UNITS    := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/t_*.c))
SECURITY := $(patsubst %.c,$(B)/%,$(wildcard tests/security/t_*.c))
FUZZERS  := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
CORPORA  := $(FUZZERS:%=$(B)/tests/fuzz/corpus_%)
PROGBINS := $(PROGRAMS:%=$(B)/%)

all: $(LIBS) $(PROGBINS) ## build everything that ships

# --- rules -----------------------------------------------------------------
$(B)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -include base/banned.h $(CFLAGS) -c $< -o $@
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -c $< -o $@
$(B)/src/base/mem.o: CPPFLAGS += -DDZ_MEM_IMPL
$(B)/src/api/api_openapi.o: src/api/api_schemas.json
# wasm_num.h: each float operation rounds by itself; sqrt needs no errno
$(B)/src/wasm/%.o $(B)/tests/unit/t_wasm_%.o: CFLAGS += -ffp-contract=off -fno-math-errno
# wasm_exec.c: the product's loop is optimised in every CONFIG: its 2,400 indirect jumps are
# -fexpensive-optimizations. Without passes that undo them (the vectoriser), or take most of the
# time and do nothing for handlers: 5 s, and nearly the speed that -O2 finds in 20 s.
ifneq (,$(filter asan fuzz tsan,$(CONFIG)))
$(B)/src/wasm/wasm_exec.o $(B)/src/wasm/wasm_exec_goto.o: CFLAGS += -O0 -DDZ_WASM_NO_GOTO
else ifeq (,$(findstring clang,$(CC)))
$(B)/src/wasm/wasm_exec_goto.o: CFLAGS += $(if $(filter release,$(CONFIG)),-O2 -fno-tree-slp-vectorize -fno-tree-fre -fno-gcse $(call cc-option,-mno-stv),-Og -fexpensive-optimizations -fno-peephole2 -fno-if-conversion2 -fno-cprop-registers)
endif
$(B)/src/wasm/wasm_trans%.o: CFLAGS += $(if $(filter release,$(CONFIG)),-O3 -fno-tree-slp-vectorize)

define module_rule
$(B)/lib$(1).a: $(call obj,$(1))
	@rm -f $$@; ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module_rule,$(m))))
# an empty disk's bytes, printed as C by a program that only the build runs
$(B)/libvfs.a: $(B)/gen/vfs_template_bytes.o
$(B)/make_template: $(B)/src/vfs/template_main.o $(B)/src/vfs/vfs_schema.o $(B)/libdb.a $(B)/libbase.a
	$(CC) $(LDFLAGS) $^ $(call sys,vfs) -o $@
$(B)/gen/vfs_template_bytes.o: $(B)/make_template
	@mkdir -p $(@D) && $< >$(@:.o=.c) && $(CC) $(CPPFLAGS) $(CFLAGS) -c $(@:.o=.c) -o $@

# t_MODULE_PART and fuzz_MODULE_PART link MODULE and what it needs.
define linked_rule
$(1): $(2) $(call libs,$(3))
	$(CC) $(LDFLAGS) $(2) $$(call group,$(call libs,$(3))) $(call sys,$(3)) $(4) -o $$@
endef
module_of = $(word 2,$(subst _, ,$(notdir $(1))))
$(foreach t,$(UNITS) $(SECURITY),$(eval $(call linked_rule,$(t),$(t).o,$(call module_of,$(t)))))
$(foreach f,$(FUZZERS),$(eval $(call linked_rule,$(B)/tests/fuzz/corpus_$(f),\
  $(B)/tests/fuzz/fuzz_$(f).o $(B)/tests/fuzz/corpus_main.o,$(call module_of,x_$(f)))))
$(foreach f,$(FUZZERS),$(eval $(call linked_rule,$(B)/fuzz_$(f),\
  $(B)/tests/fuzz/fuzz_$(f).o,$(call module_of,x_$(f)),-fsanitize=fuzzer)))
$(foreach p,$(PROGRAMS),$(eval $(call linked_rule,$(B)/$(p),$(SRC_$(p):%.c=$(B)/%.o),$(p))))
$(foreach b,$(BENCHES),$(eval $(call linked_rule,$(B)/bench_$(b),$(B)/bench/bench_$(b).o $(B)/bench/bench.o $(if $(filter sleep cell,$(b)),$(B)/bench/bench_pool.o),bench_$(b))))

# --- guests ------------------------------------------------------------------
# Freestanding C for WebAssembly, the same for every CONFIG; what old engines
# would not read (multi-value, the long form of table indices) is off. Linked in
# a step of its own, for in one clang also runs wasm-opt where it finds it, and
# that does not know returns_twice.
GUEST_CC := clang-19 --target=wasm32 -std=gnu17 -O2 -Wall -Wextra -Werror \
  -mno-reference-types -mno-multivalue
GUEST_LD := wasm-ld-19 --no-entry -z stack-size=65536
GUESTS   := $(patsubst tests/guests/%.c,build/guests/%.wasm,$(wildcard tests/guests/*.c)) \
  $(foreach d,bench libc,$(patsubst bench/wasm/%.c,build/guests/$(d)/%.wasm,$(filter-out %_main.c,$(wildcard bench/wasm/*.c))))
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
	clang-19 --target=wasm32-wasi -std=gnu17 -D_GNU_SOURCE -O1 -nostartfiles -Wl,--no-entry -DPROGRAM='"../../$<"' tests/freeze/guest_libc.c -o $@
build/guests/bench/%: bench/wasm/%.c bench/wasm/native_main.c bench/wasm/guest.h
	@mkdir -p $(@D)
	clang-19 -std=gnu17 -O2 -fno-math-errno -DBENCH_NATIVE -Wall -Wextra -Werror $(filter %.c,$^) -o $@

# --- tests -------------------------------------------------------------------
TEST_SUITES := check check-asan spec spec-asan freeze guest-native guest-sandbox test-images integration openapi model crash wasi security security-asan sim kill sleep
test: setup ## set up, build and pass every test
	@scripts/test $(TEST_SUITES)
test-all: ## the same, and the long suites
	@scripts/test test busybox-suite sim-all sleep-all soak-short
check: $(UNITS) $(CORPORA) ; @scripts/run-tap unit $(UNITS) -- corpora $(CORPORA) ## unit tests and corpora
check-asan: ; @$(MAKE) --no-print-directory CONFIG=asan check ## the same under ASan and UBSan
integration: all build/base/base.doze ## the program itself, in numbered shell tests
	@DOZE=$(abspath $(B)/doze) DZ_MET=$(abspath $(B)/met.log) scripts/integration $(sort $(wildcard tests/integration/t*.sh))
openapi: $(B)/doze build/base/base.doze ; @DOZE=$(abspath $(B)/doze) scripts/run-tap openapi tests/openapi/run ## the daemon against its own OpenAPI document
WASI_TESTS := $(patsubst tests/wasi/p1/%.c,build/wasi-tests/%.wasm,$(wildcard tests/wasi/p1/*.c))
wasi: $(B)/wasi_suite $(WASI_TESTS) ; @DZ_WASI_TESTS=build/wasi-tests scripts/run-tap wasi $(B)/wasi_suite ## the official tests of WASI preview 1, and ours
build/wasi-tests/%.wasm: tests/wasi/p1/%.c tests/wasi/p1/p1.h
	@mkdir -p $(@D)/root
	clang-19 --target=wasm32-wasi -std=gnu17 -O1 -Wall -Wextra -Werror $< -o $@
	@echo '{"root": "root"}' >$(@:.wasm=.json)
security: $(SECURITY) build/guest-tests/hostile.wasm ; @scripts/run-tap security $(SECURITY) ## guests, hosts and cells that attack one another
security-asan: ; @$(MAKE) --no-print-directory CONFIG=asan security ## the same under ASan and UBSan
crash: $(B)/torture_vfs ; @scripts/run-tap crash $(B)/torture_vfs ## the disk with each call failing, each power cut, each full disk
TORTURED = $(patsubst %.c,$(B)/%,$(shell grep -l '^TORTURE' tests/unit/t_*.c))
model: $(B)/model_vfs $(B)/views_vfs $(B)/host_vfs ## random operations on the disk against a model; SEED= STEPS=
	@scripts/run-tap model $(B)/model_vfs $(B)/views_vfs $(B)/host_vfs
sim: $(B)/sim ; @scripts/run-tap sim $(B)/sim ## the lifecycle by seeds, with crashes and faults; SEEDS= SEED= STEPS=
sim-all: export SEEDS := 10000
sim-all: sim
kill: $(B)/kill ; @scripts/run-tap kill $(B)/kill ## SIGKILL before each system call of each operation of the lifecycle
torture: $(UNITS) ; @TAP_ONLY=torture scripts/run-tap torture $(TORTURED) ## only the tests in which every allocation fails once
spec: $(B)/spec ## WebAssembly's own tests, by both loops of the engine
	@tests/spec/run $(B)/spec build/spectest
spec-asan: ## the same by the switch, under ASan and UBSan
	@$(MAKE) --no-print-directory CONFIG=asan build/asan-$(notdir $(CC))/spec >/dev/null
	@tests/spec/run build/asan-$(notdir $(CC))/spec build/spectest switch
freeze: $(FREEZE:%=$(B)/%) guests ; @DOZE_SPEC_DIR=$$(tests/spec/unpack build/spectest | head -n 1) scripts/run-tap freeze $(FREEZE:%=$(B)/%) ## stop programs anywhere, finish them elsewhere; copy, jump, inject
sleep: export DOZE_OTHER ?= $(abspath build/asan-$(notdir $(CC))/doze)
sleep: $(SLEEP:%=$(B)/%) build/base/base.doze ## real programs asleep anywhere, some legs by the switch under ASan; SEED= POINTS= CYCLES=
	@$(MAKE) --no-print-directory CONFIG=asan build/asan-$(notdir $(CC))/doze >/dev/null
	@POINTS=$(or $(POINTS),8) CYCLES=$(or $(CYCLES),100) scripts/run-tap sleep $(SLEEP:%=$(B)/%)
sleep-all: ; @$(MAKE) --no-print-directory sleep POINTS=50 CYCLES=1000 ## the same at 50 points each, and 1,000 times
soak: soak-sleep soak-daemon ## everything that takes an hour
soak-sleep: $(B)/sleep_soak build/base/base.doze ; @CYCLES=10000 scripts/run-tap soak $< ## 10,000 times asleep and awake
soak-daemon: $(B)/soak_daemon $(B)/doze build/base/base.doze ## a daemon under mixed load, killed again and again; SOAK_SECONDS= SEED=
	@DOZE=$(abspath $(B)/doze) DOZE_BASE=$(abspath build/base/base.doze) SOAK_SECONDS=$(or $(SOAK_SECONDS),1800) scripts/run-tap soak $<
soak-short: ; @$(MAKE) --no-print-directory soak-daemon SOAK_SECONDS=120
cover: ## line coverage of each module by the unit tests
	@$(MAKE) --no-print-directory CONFIG=cover check >/dev/null
	@scripts/cover build/cover-$(notdir $(CC)) $(MODULES)
fuzz: ## run each fuzzer for FUZZ_S seconds (default 10)
	@$(MAKE) --no-print-directory CONFIG=fuzz CC=$(CLANG) $(FUZZERS:%=build/fuzz-$(CLANG)/fuzz_%)
	@scripts/fuzz build/fuzz-$(CLANG) $(FUZZERS)

# --- programs that run inside a sandbox ----------------------------------------
GUEST_TESTS  := $(patsubst guest/tests/%.c,%,$(wildcard guest/tests/t_*.c))
GUEST_PARTS  := $(wildcard guest/lib/* guest/include/*.h guest/include/*/*.h) $(wildcard packaging/deb/*) guest/build guest/doze-cc guest/fetch-source
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
guest-native: $(GUEST_TESTS:%=build/guest-native/%) ## the same tests against this machine's POSIX
	@scripts/run-tap guest-native $^
build/guest-sandbox/%: build/guest-tests/%.wasm build/base/base.doze $(B)/doze
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec %s run -b %s -c %s:/bin/%s -- %s\n' $(abspath $(B)/doze build/base/base.doze $<) $* $* >$@
	@chmod +x $@
guest-sandbox: $(GUEST_TESTS:%=build/guest-sandbox/%) ## the same tests inside a sandbox
	@scripts/run-tap guest-sandbox $^
busybox-suite: build/base/base.doze ## busybox's own tests in a sandbox, compared with a native build; NAMES=
	@guest/busybox-suite $(B)/doze $< $(NAMES)
base: build/base/base.doze ## the root that sandboxes start from, from Debian's sources
build/base/base.doze: $(B)/doze build/guest-sys/lib/libposix.o $(wildcard guest/base/* guest/base/etc/* guest/programs/*)
	guest/base/build $(B)/doze build/guest-sys $@
test-images: export DOZE_DATA = build/data
images test-images: base ## the images base, python and js, in DOZE_DATA (test-images: in build/data)
	@images/build $(B)/doze

# --- checks ------------------------------------------------------------------
# by what its checks look at and no more: the interpreter's loop, the program's help
lint: setup ## format, layers, sizes, headers, symbols, docs, shell
	@CC=$(CC) scripts/lint build/lint-$(notdir $(CC)) $(MAKE) --no-print-directory -s CONFIG=lint build/lint-$(notdir $(CC))/src/wasm/wasm_exec_goto.o
analyze: setup ## gcc -fanalyzer and clang-tidy
	@scripts/analyze $(sort $(wildcard src/*/*.c))

# --- figures -----------------------------------------------------------------
load: ; @$(MAKE) --no-print-directory -s CONFIG=release $(SHIPPED:doze=load) $(SHIPPED) && $(SHIPPED:doze=load) $(SHIPPED) $(or $(IDLE),10000) $(or $(RATE),2000) $(or $(SECONDS),60) ## 10,000 idle connections and 2,000 requests a second for a minute; IDLE= RATE= SECONDS=
bench-peers: ; @bench/peers ## install the programs that benches measure against
bench-wasm: $(patsubst bench/wasm/%.c,build/guests/bench/%,$(filter-out %_main.c,$(wildcard bench/wasm/*.c))) guests
bench-sleep: guests
bench-%: ## one bench (release build), for instance bench-spawn
	@$(MAKE) --no-print-directory -s CONFIG=release $(addprefix build/release-$(notdir $(CC))/,bench_$* $(if $(filter run daemon,$*),doze))
	@build/release-$(notdir $(CC))/bench_$*
bench: $(BENCHES:%=bench-%) ## every bench; tables, and build/bench/NAME.json

# --- the rest ----------------------------------------------------------------
DEMO_BUILD := build/release-gcc
demo: setup ## set up, build and show the main job
	@$(MAKE) --no-print-directory -s CC=gcc CONFIG=release $(DEMO_BUILD)/doze base
	@DOZE_DATA=build/data images/build $(DEMO_BUILD)/doze base python
	@DOZE_DATA=$(abspath build/data) scripts/demo $(DEMO_BUILD)/doze
setup: ; @scripts/setup ## install what scripts/packages lists and is missing
SHIPPED := build/release-$(notdir $(CC))/doze
install deb: ## doze, manual pages, completion, unit, doze.ini under DESTDIR and PREFIX; a Debian package in build/
	@$(MAKE) --no-print-directory -s CONFIG=release $(SHIPPED) $(if $(filter deb,$@),base)
	@scripts/$@ $(SHIPPED) $(if $(filter deb,$@),$(VERSION) build,"$(DESTDIR)" $(PREFIX))
help: ## this list
	@grep -hE '^[a-z% -]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20
clean: ; rm -rf build ## remove every build directory

.PHONY: all load openapi kill security security-asan sim sim-all spec spec-asan freeze sleep sleep-all soak soak-sleep soak-daemon soak-short guest guest-native guest-sandbox busybox-suite base wasi guests demo setup install deb test test-all check check-asan torture cover fuzz lint analyze bench bench-peers images test-images help clean
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
