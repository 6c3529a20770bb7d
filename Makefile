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
WARN += $(if $(findstring clang,$(CC)), \
        -Wno-gnu -Wcomma -Wunreachable-code $(call cc-option,-Wno-c23-extensions), \
        -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Walloc-zero -Wno-pedantic)
HARDEN := -fstack-protector-strong -fno-common -fno-strict-aliasing -fPIE

OPT_debug   := -Og -g3
OPT_lint    := -O0 -w
# -Wnull-dereference sees through inlining at -O2 and no assertion calms it: -Og and -fanalyzer check that
OPT_release  = -O2 -g -D_FORTIFY_SOURCE=2 -Wno-null-dereference $(call cc-option,-ftrivial-auto-var-init=zero)
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread -Wno-null-dereference -Wno-maybe-uninitialized
OPT_cover   := -O0 -g --coverage
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all

CPPFLAGS := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DDZ_VERSION='"$(VERSION)"' -Isrc -MMD -MP
# DZ_CHECK_DEEP: assertions that walk whole tables; the others stand in every build
CPPFLAGS += $(if $(filter debug asan fuzz,$(CONFIG)),-DDZ_CHECK_DEEP=1)
CFLAGS   := -std=gnu17 $(WARN) $(HARDEN) $(OPT_$(CONFIG))
LDFLAGS  := -pie -Wl,-z,relro,-z,now $(filter -fsanitize% --coverage,$(OPT_$(CONFIG)))

# A module is a directory of src/. NEEDS_x: the modules it may use; this drives
# linking, unit tests and scripts/check-layers. SYS_x: its system libraries.
MODULES    := base tree config tls wasm db os cli vfs kernel wasi machine cell lifecycle registry blob loop
MODULES    += schedule sandbox image http metrics client control api daemon mm linux runtime stub replica net
MODULES    += broker service
NEEDS_os   := base
NEEDS_tree := base
NEEDS_mm   := base
NEEDS_runtime := base
NEEDS_linux := base vfs kernel mm stub
NEEDS_stub := base os mm
NEEDS_config := base
NEEDS_cli  := base os client
# what files cli/local_* may use besides
NEEDS_cli_local := tree config db vfs wasm kernel linux cell machine lifecycle loop registry blob
NEEDS_cli_local += replica sandbox image daemon
NEEDS_wasm := base
NEEDS_db   := base
NEEDS_vfs  := base db
NEEDS_kernel := base wasm vfs
NEEDS_wasi := base vfs wasm kernel
NEEDS_lifecycle := base
NEEDS_registry := base db lifecycle
NEEDS_loop := base
NEEDS_tls  := base
NEEDS_net  := base
NEEDS_broker := base os loop net
NEEDS_http := base loop tls
NEEDS_metrics := base
NEEDS_client := base tls
NEEDS_blob := base
NEEDS_replica := base blob
NEEDS_sandbox := base loop lifecycle registry blob runtime
NEEDS_schedule := base loop registry
NEEDS_service := base
NEEDS_machine := base db vfs kernel wasm
NEEDS_cell := base os db wasm kernel wasi vfs stub linux machine blob runtime
NEEDS_image := base tree os db vfs wasm kernel cell machine
NEEDS_control := base net broker os db kernel vfs loop lifecycle registry blob replica runtime sandbox
NEEDS_control += schedule service cell image
NEEDS_api := base loop runtime cell http metrics control
NEEDS_daemon := base config os loop blob cell http control api
SYS_base   := -lcrypto
SYS_tls    := -lcrypto
SYS_os     := -lseccomp
SYS_wasm   := -lm
SYS_db     := -lsqlite3
SYS_loop   := -luv
SYS_broker := -lcares
SYS_blob   := -lzstd -linih
SYS_machine := -llz4
SYS_replica := -llz4
SYS_image  := -linih -lz -lzstd -ljansson
SYS_config := -linih
SYS_sandbox := -ljansson
SYS_control := -ljansson
SYS_api    := -ljansson
SYS_http   := -lwslay -lcrypto
SYS_client := -lwslay -ljansson

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
$(call program,kill,$(addprefix tests/kill/,kill_main.c kill_rig.c kill_calls.c),sandbox vfs cell)
$(call program,sim,$(addprefix tests/sim/,sim_main.c sim_world.c sim_cells.c sim_registry.c sim_store.c),sandbox)
# hostile: attacks inside real cells; doze_hostile: the product and the same hook (hostile.h)
HOSTILE    := $(addprefix tests/security/hostile_,hook.c calls.c acts.c words.c)
HOSTILE_WRAPS := execve open64 unshare dz_os_jail_enter dz_cell_machine_open dz_cell_enter dz_vfs_prepare_image
$(call program,hostile,tests/security/hostile_main.c $(HOSTILE),cell)
$(call program,doze_hostile,src/cli/main.c $(HOSTILE),cli)
$(call program,canned,tests/web/canned.c,http)$(call program,load,tests/load/load.c,)
$(foreach p,spec freeze_spec wasi_suite canned,$(eval SYS_$(p) := -ljansson))
# bench/bench_x.c, run by `make bench-x`.
BENCHES    := spawn db disk wasm run sleep cell lifecycle images daemon stub linux replica blob rented net
NEEDS_bench_wasm  := wasm
NEEDS_bench_sleep := image
NEEDS_bench_cell  := cell
NEEDS_bench_db    := db
NEEDS_bench_disk  := vfs
NEEDS_bench_lifecycle := sandbox
NEEDS_bench_rented := schedule
NEEDS_bench_blob  := blob
NEEDS_bench_stub  := stub
NEEDS_bench_replica := db replica

deps  = $(sort $(1) $(foreach m,$(NEEDS_$(1)) $(NEEDS_$(1)_local),$(call deps,$(m))))
libs  = $(patsubst %,$(B)/lib%.a,$(filter $(MODULES),$(call deps,$(1))))
sys   = $(sort $(foreach m,$(call deps,$(1)),$(SYS_$(m))))
obj   = $(patsubst %.c,$(B)/%.o,$(filter-out src/$(1)/main.c %/template_main.c %_guest.c,$(wildcard src/$(1)/*.c)))
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
$(B)/src/api/api_openapi.o: $(wildcard src/api/schemas/*.json)
# wasm_num.h: each float operation rounds by itself; sqrt needs no errno
$(B)/src/wasm/%.o $(B)/tests/unit/t_wasm_%.o: CFLAGS += -ffp-contract=off -fno-math-errno
# wasm_exec.c: the product's loop is optimised in every CONFIG: its 2,400 indirect jumps are
# -fexpensive-optimizations. Without passes that undo them (the vectoriser), or take most of the
# time and do nothing for handlers: 5 s, and nearly the speed that -O2 finds in 20 s.
ifneq (,$(filter asan fuzz tsan,$(CONFIG)))
$(B)/src/wasm/wasm_exec.o $(B)/src/wasm/wasm_exec_goto.o: CFLAGS += -O0 -DDZ_WASM_NO_GOTO
else ifeq (,$(findstring clang,$(CC)))
$(B)/src/wasm/wasm_exec_goto.o: CFLAGS += $(if $(filter release,$(CONFIG)), \
  -O2 -fno-tree-slp-vectorize -fno-tree-fre -fno-gcse $(call cc-option,-mno-stv), \
  -Og -fexpensive-optimizations -fno-peephole2 -fno-if-conversion2 -fno-cprop-registers)
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

# the program in the processes of native guests: no C library, no data, at an address of its own; as C
$(B)/libstub.a: $(B)/gen/stub_program.o
$(B)/stub_program: src/stub/stub_guest.c src/stub/stub_page.h src/stub/stub_ahead.h
	@mkdir -p $(@D)
	$(CC) -Isrc -std=gnu17 $(WARN) -O2 -ffreestanding -fPIE -fvisibility=hidden -fno-stack-protector -fcf-protection=none \
	  -fno-asynchronous-unwind-tables -mgeneral-regs-only -fno-strict-aliasing -nostdlib -static \
	  -Wl,-Ttext-segment=0x600000000000,-z,noseparate-code,-z,norelro,--build-id=none,--fatal-warnings $< -o $@
$(B)/gen/stub_program.o: $(B)/stub_program
	@mkdir -p $(@D)
	@{ echo '#include "stub/stub_int.h"'; echo 'const unsigned char dz_stub_program[] = {'; \
	  od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g'; echo '};'; \
	  echo 'const size_t dz_stub_program_size = sizeof dz_stub_program;'; } >$(@:.o=.c)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $(@:.o=.c) -o $@

# what native guests read clocks by: an ELF image of its own, also without a C library; as C
$(B)/liblinux.a: $(B)/gen/linux_vdso.o
$(B)/linux_vdso: src/linux/linux_vdso_guest.c src/linux/linux_vdso.lds src/linux/linux_vdso_page.h
	@mkdir -p $(@D)
	$(CC) -Isrc -std=gnu17 $(WARN) -O2 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector \
	  -fcf-protection=none -fasynchronous-unwind-tables -mgeneral-regs-only -nostdlib -shared \
	  -Wl,-T,src/linux/linux_vdso.lds,-soname=linux-vdso.so.1,--hash-style=both,--build-id=none,--eh-frame-hdr,-s \
	  -Wl,-z,max-page-size=4096,-z,noseparate-code,--fatal-warnings $< -o $@
$(B)/gen/linux_vdso.o: $(B)/linux_vdso
	@mkdir -p $(@D)
	@{ echo '#include "linux/linux_vdso.h"'; echo 'const unsigned char dz_linux_vdso_program[] = {'; \
	  od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g'; echo '};'; \
	  echo 'const size_t dz_linux_vdso_program_size = sizeof dz_linux_vdso_program;'; } >$(@:.o=.c)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $(@:.o=.c) -o $@

# t_MODULE_PART and fuzz_MODULE_PART link MODULE and what it needs.
define linked_rule
$(1): $(2) $(call libs,$(3))
	$(CC) $$(LDFLAGS) $(2) $$(call group,$(call libs,$(3))) $(call sys,$(3)) $(4) -o $$@
endef
# t_native_*: programs of this machine on all that executes them
NEEDS_native := linux stub
$(B)/tests/unit/t_native_run: $(B)/tests/native/native_hello
$(B)/tests/unit/t_native_sleep: $(B)/tests/native/native_sleep
$(B)/tests/unit/t_native_edges: $(B)/tests/native/native_edges
$(B)/tests/unit/t_native_net: $(B)/tests/native/native_net $(B)/tests/native/native_netif
$(B)/tests/unit/t_cell_native: $(B)/tests/native/native_cell
$(B)/tests/unit/t_cell_net: $(B)/tests/native/native_door
$(B)/tests/unit/t_native_hostile: $(B)/tests/native/native_hostile
$(B)/tests/security/t_cell_linux: $(B)/tests/native/native_attacks
$(B)/tests/native/native_net $(B)/tests/native/native_netif: tests/native/native_net.h
$(B)/tests/native/%: tests/native/%.c
	@mkdir -p $(@D)
	gcc -std=gnu17 -O1 -Wall -Wextra -Werror -static -pthread $< -o $@
module_of = $(word 2,$(subst _, ,$(notdir $(1))))
$(foreach t,$(UNITS) $(SECURITY),$(eval $(call linked_rule,$(t),$(t).o,$(call module_of,$(t)))))
$(foreach f,$(FUZZERS),$(eval $(call linked_rule,$(B)/tests/fuzz/corpus_$(f),\
  $(B)/tests/fuzz/fuzz_$(f).o $(B)/tests/fuzz/corpus_main.o,$(call module_of,x_$(f)))))
$(foreach f,$(FUZZERS),$(eval $(call linked_rule,$(B)/fuzz_$(f),\
  $(B)/tests/fuzz/fuzz_$(f).o,$(call module_of,x_$(f)),-fsanitize=fuzzer)))
$(foreach p,$(PROGRAMS),$(eval $(call linked_rule,$(B)/$(p),$(SRC_$(p):%.c=$(B)/%.o),$(p))))
$(B)/hostile $(B)/doze_hostile: private LDFLAGS += $(HOSTILE_WRAPS:%=-Wl,--wrap=%)
$(B)/hostile: private LDFLAGS += -Wl,--wrap=waitpid -Wl,--wrap=poll
bench_pool = $(if $(filter sleep cell,$(1)),$(B)/bench/bench_pool.o)
$(foreach b,$(BENCHES),$(eval $(call linked_rule,$(B)/bench_$(b),\
  $(B)/bench/bench_$(b).o $(B)/bench/bench.o $(call bench_pool,$(b)),bench_$(b))))

include mk/guests.mk mk/tests.mk mk/bench.mk mk/package.mk
.PHONY: all
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
