# Tests and checks.
ASAN    := build/asan-$(notdir $(CC))
IN_ASAN  = $(MAKE) --no-print-directory CONFIG=asan
BASE    := build/base/base.doze

TEST_SUITES := check spec freeze guest-native guest-sandbox test-images ltp integration openapi model crash \
  wasi security sim kill sleep
SANITIZED_SUITES := check-asan check-tsan spec-asan security-asan chaos
test: setup ## set up, build and pass the tests that a change must pass
	@scripts/test $(TEST_SUITES)
sanitizers: setup ## the tests under ASan, UBSan and TSan, and clients from hell; .ci/run has them, too
	@scripts/test $(SANITIZED_SUITES)
test-all: ## both, and the long suites
	@scripts/test test sanitizers security-all busybox-suite cpython bash-suite git-suite perl-suite sim-all \
	  sleep-all ltp-sleep soak-linux soak-short soak-full-disk-short lives mutants
mutants: $(BASE) ## bugs put in one at a time, and the tests that must notice; ONLY= JOBS= AGAIN= V=
	@scripts/mutants "$(MAKE) --no-print-directory -o $(BASE)" $(B)
.PHONY: test sanitizers test-all mutants

# T=vfs_file chooses t_vfs_file and corpus_vfs_file, T=vfs all of t_vfs_* and corpus_vfs_*
named = $(strip $(or $(filter %/$(1)_$(T),$(2)),$(foreach x,$(2),$(if $(findstring /$(1)_$(T)_,$(x)),$(x)))))
CHECKED_UNITS   := $(if $(T),$(call named,t,$(UNITS)),$(UNITS))
CHECKED_CORPORA := $(if $(T),$(call named,corpus,$(CORPORA)),$(CORPORA))
check: $(CHECKED_UNITS) $(CHECKED_CORPORA) ## unit tests and corpora; T=vfs_file: one, T=vfs: a module's
	@[ -n "$^" ] || { echo "check: no test is named $(T): see tests/unit and tests/fuzz"; exit 2; }
	@scripts/run-tap $(if $(CHECKED_UNITS),unit $(CHECKED_UNITS)) \
	    $(if $(and $(CHECKED_UNITS),$(CHECKED_CORPORA)),--) $(if $(CHECKED_CORPORA),corpora $(CHECKED_CORPORA))
check-asan: ## the same under ASan and UBSan
	+@$(IN_ASAN) check
check-tsan: ## the tests of the engine of replication, whose threads share memory, under ThreadSanitizer
	+@TSAN_OPTIONS=halt_on_error=1 $(MAKE) --no-print-directory CONFIG=tsan T=$(or $(T),replica) check
TORTURED = $(patsubst %.c,$(B)/%,$(shell grep -l '^TORTURE' tests/unit/t_*.c))
torture: $(UNITS) ## only the tests in which every allocation fails once
	@TAP_ONLY=torture scripts/run-tap torture $(TORTURED)
.PHONY: check check-asan check-tsan torture

ATTACKS     := $(B)/tests/native/native_attacks
INTEGRATION := $(sort $(wildcard tests/integration/t$(T:t%=%)*.sh))
integration: all $(BASE) $(ATTACKS) ## the program itself, in numbered shell tests; T=0325: one, T=032: those
	@[ -n "$(INTEGRATION)" ] || { echo "integration: no test in tests/integration is t$(T)*"; exit 2; }
	@DOZE=$(abspath $(B)/doze) DZ_MET=$(abspath $(B)/met.log) \
	    $(if $(T),scripts/run-tap integration,scripts/integration) $(INTEGRATION)
openapi: $(B)/doze $(BASE) ## the daemon against its own OpenAPI document
	@DOZE=$(abspath $(B)/doze) scripts/run-tap openapi tests/openapi/run
.PHONY: integration openapi

WASI_TESTS := $(patsubst tests/wasi/p1/%.c,build/wasi-tests/%.wasm,$(wildcard tests/wasi/p1/*.c))
wasi: $(B)/wasi_suite $(WASI_TESTS) ## the official tests of WASI preview 1, and ours
	@DZ_WASI_TESTS=build/wasi-tests scripts/run-tap wasi $(B)/wasi_suite
build/wasi-tests/%.wasm: tests/wasi/p1/%.c tests/wasi/p1/p1.h
	@mkdir -p $(@D)/root
	clang-19 --target=wasm32-wasi -std=gnu17 -O1 -Wall -Wextra -Werror $< -o $@
	@echo '{"root": "root"}' >$(@:.wasm=.json)
spec: $(B)/spec ## WebAssembly's own tests, by both loops of the engine
	@tests/spec/run $(B)/spec build/spectest
spec-asan: ## the same by the switch, under ASan and UBSan
	+@$(IN_ASAN) $(ASAN)/spec >/dev/null
	@tests/spec/run $(ASAN)/spec build/spectest switch
freeze: $(FREEZE:%=$(B)/%) guests ## stop programs anywhere, finish them elsewhere; copy, jump, inject
	@DOZE_SPEC_DIR=$$(tests/spec/unpack build/spectest | head -n 1) \
	    scripts/run-tap freeze $(FREEZE:%=$(B)/%)
.PHONY: wasi spec spec-asan freeze

HOSTILE_WASM := build/guest-tests/hostile.wasm
security: $(SECURITY) $(B)/hostile $(HOSTILE_WASM) ## guests, hosts and cells that attack one another
	@scripts/run-tap security $(SECURITY) $(B)/hostile
security-all: export HOSTILE_ALL := 1
security-all: security ## the same, with every attack on every kind of host
security-asan: ## the same under ASan and UBSan
	+@$(IN_ASAN) security
crash: $(B)/torture_vfs ## the disk with each call failing, each power cut, each full disk
	@scripts/run-tap crash $(B)/torture_vfs
ltp: $(B)/doze ## the Linux Test Project's tests of system calls, each in a sandbox; T= JOBS= LTP_ON=native
	@DOZE=$(abspath $(B)/doze) scripts/run-tap ltp tests/ltp/ltp.py
ltp-sleep: export LTP_SLEEP := 50
ltp-sleep: ltp ## the same tests, each suspended and resumed every 50 ms
.PHONY: ltp ltp-sleep
cpython: $(B)/doze ## CPython's own tests, each file in a sandbox and, if it fails, natively; T= JOBS=
	@DOZE=$(abspath $(B)/doze) scripts/run-tap cpython tests/suites/cpython/run
bash-suite git-suite perl-suite: %-suite: $(B)/doze ## bash's, git's and perl's own tests, in the same way; T= JOBS=
	@DOZE=$(abspath $(B)/doze) scripts/run-tap $@ tests/suites/$*/run
.PHONY: cpython bash-suite git-suite perl-suite
MODELS := $(B)/model_vfs $(B)/views_vfs $(B)/host_vfs
model: $(MODELS) ## random operations on the disk against a model; SEED= STEPS=
	@scripts/run-tap model $(MODELS)
sim: $(B)/sim ## the lifecycle by seeds, with crashes and faults; SEEDS= SEED= STEPS=
	@scripts/run-tap sim $(B)/sim
sim-all: export SEEDS := 10000
sim-all: sim
kill: $(B)/kill ## SIGKILL before each system call of each operation of the lifecycle
	@scripts/run-tap kill $(B)/kill
.PHONY: security security-all security-asan crash model sim sim-all kill

sleep: export DOZE_OTHER ?= $(abspath $(ASAN)/doze)
sleep: $(SLEEP:%=$(B)/%) $(BASE) ## programs asleep anywhere, woken by other builds; SEED= POINTS= CYCLES=
	+@$(IN_ASAN) $(ASAN)/doze >/dev/null
	@POINTS=$(or $(POINTS),8) CYCLES=$(or $(CYCLES),100) scripts/run-tap sleep $(SLEEP:%=$(B)/%)
	@$(MAKE) --no-print-directory sleep-linux POINTS=$(or $(LINUX_POINTS),4) NSLEEP_SEEDS=$(or $(NSLEEP_SEEDS),2)
sleep-all: ## the same at 50 points each (Linux programs at 200), and 1,000 times
	@$(MAKE) --no-print-directory sleep POINTS=50 LINUX_POINTS=200 CYCLES=1000
sleep-linux: export NSLEEP_SEEDS ?= 20
sleep-linux: $(B)/doze $(B)/tests/unit/t_native_sleep ## Linux programs asleep anywhere; SEED= POINTS= ONLY=
	@DOZE=$(abspath $(B)/doze) POINTS=$(or $(POINTS),200) scripts/run-tap \
	    sleep-linux $(B)/tests/unit/t_native_sleep tests/sleep/sleep_linux
chaos: export SEED := $(or $(SEED),$(shell date +%s))
chaos: export CHAOS_SECONDS ?= 90
chaos: $(B)/doze $(BASE) ## clients from hell on a daemon under ASan; SEED= CHAOS_SECONDS= CHAOS_ACTS=
	+@$(IN_ASAN) -o $(BASE) $(ASAN)/doze >/dev/null
	@echo "chaos: SEED=$(SEED) CHAOS_SECONDS=$(CHAOS_SECONDS)"
	@DOZE=$(abspath $(B)/doze) DOZE_ASAN=$(abspath $(ASAN)/doze) DOZE_BASE=$(abspath $(BASE)) \
	    scripts/run-tap chaos tests/chaos/chaos.py
soak-chaos:
	@$(MAKE) --no-print-directory chaos CHAOS_SECONDS=1800
lives: export LIVES ?= 1000
lives: ## 1,000 random lives of sandboxes, which leave nothing behind; LIVES= SEED=
	@$(MAKE) --no-print-directory integration T=0862
.PHONY: lives
.PHONY: chaos soak-chaos
soak: soak-sleep soak-linux soak-daemon soak-full-disk soak-replica soak-volumes soak-chaos ## what takes hours
soak-sleep: $(B)/sleep_soak $(BASE) ## 10,000 times asleep and awake
	@CYCLES=10000 scripts/run-tap soak $<
soak-linux: $(B)/doze ## a native program asleep 10,000 times, 1,000 of them at once; CYCLES= REPLS= SEED=
	@DOZE=$(abspath $(B)/doze) scripts/run-tap soak tests/sleep/soak_linux
soak-daemon: $(B)/soak_daemon $(B)/doze $(BASE) ## a daemon under mixed load, killed often; SOAK_SECONDS= SEED=
	@DOZE=$(abspath $(B)/doze) DOZE_BASE=$(abspath $(BASE)) \
	    SOAK_SECONDS=$(or $(SOAK_SECONDS),1800) scripts/run-tap soak $<
soak-replica: $(B)/doze $(BASE) ## 200 replicated sandboxes under kills, each restored; SOAK_SECONDS= BOXES= SEED=
	@DOZE=$(abspath $(B)/doze) DOZE_BASE=$(abspath $(BASE)) scripts/run-tap soak tests/soak/soak_replica
soak-volumes: $(B)/doze $(BASE) ## 200 sandboxes share ten volumes under kills; SOAK_SECONDS= SANDBOXES= SEED=
	@DOZE=$(abspath $(B)/doze) DOZE_BASE=$(abspath $(BASE)) scripts/run-tap soak tests/soak/soak_volumes
.PHONY: soak-volumes
soak-short:
	@$(MAKE) --no-print-directory soak-daemon SOAK_SECONDS=120
soak-full-disk: export SOAK_DISK ?= size=192m,nr_inodes=4096
soak-full-disk: ## the same on a tmpfs whose blocks and inodes run out; SOAK_SECONDS= SEED= SOAK_DISK=
	@$(MAKE) --no-print-directory soak-daemon
soak-full-disk-short:
	@$(MAKE) --no-print-directory soak-full-disk SOAK_SECONDS=60
.PHONY: sleep sleep-all sleep-linux soak soak-sleep soak-linux soak-daemon
.PHONY: soak-short soak-replica soak-full-disk soak-full-disk-short

# fuzz_api_session.c puts itself between the api and the control plane, and under the server's sockets
SESSION_WRAPS := recv send $(addprefix dz_control_,get exec exec_watch exec_send) \
  $(addprefix dz_exec_watch_,ack alive end abort)
$(B)/fuzz_api_session $(B)/tests/fuzz/corpus_api_session: \
  LDFLAGS += $(SESSION_WRAPS:%=-Wl,--wrap=%)
# t_replica_engine.c puts faults between the engine and its store
REPLICA_WRAPS := $(addprefix dz_blob,s_list s_remove _in_open _in_read _out_open _out_write _out_commit)
$(B)/tests/unit/t_replica_engine: LDFLAGS += $(REPLICA_WRAPS:%=-Wl,--wrap=%)
cover: ## line coverage of each module by the unit tests
	@$(MAKE) --no-print-directory CONFIG=cover check >/dev/null
	@scripts/cover build/cover-$(notdir $(CC)) $(MODULES)
fuzz: ## run each fuzzer for FUZZ_S seconds (default 10)
	@$(MAKE) --no-print-directory CONFIG=fuzz CC=$(CLANG) $(FUZZERS:%=build/fuzz-$(CLANG)/fuzz_%)
	@scripts/fuzz build/fuzz-$(CLANG) $(FUZZERS)
# lint builds what its checks look at and no more: the interpreter's loop, the program's help
LINT     := build/lint-$(notdir $(CC))
LINT_OBJ := $(LINT)/src/wasm/wasm_exec_goto.o
lint: setup ## format, layers, sizes, headers, symbols, docs, shell
	@CC=$(CC) scripts/lint $(LINT) $(MAKE) --no-print-directory -s CONFIG=lint $(LINT_OBJ)
# as clang compiles it, whose options are the ones that editors and clang-tidy understand
compile_commands.json: ## how each file is compiled, for editors and clang's tools
	@$(MAKE) --no-print-directory CC=clang-19 -nB -o $(BASE) everything | scripts/compile-commands >$@
everything: all $(UNITS) $(CORPORA) $(SECURITY) $(BENCHES:%=$(B)/bench_%)
analyze: setup ## gcc -fanalyzer and clang-tidy
	@scripts/analyze $(sort $(wildcard src/*/*.c))
.PHONY: cover fuzz lint analyze compile_commands.json everything
