# Figures: every row of SPECIFICATION.md that has a number comes from a bench.
RELEASE := build/release-$(notdir $(CC))
SHIPPED := $(RELEASE)/doze
IN_RELEASE = $(MAKE) --no-print-directory -s CONFIG=release

load: ## 10,000 idle connections and 2,000 requests a second for a minute; IDLE= RATE= SECONDS=
	@$(IN_RELEASE) $(RELEASE)/load $(SHIPPED)
	@$(RELEASE)/load $(SHIPPED) $(or $(IDLE),10000) $(or $(RATE),2000) $(or $(SECONDS),60)
bench-peers: ## install the programs that benches measure against
	@bench/peers
BENCH_WASM := $(patsubst bench/wasm/%.c,%,$(filter-out %_main.c,$(wildcard bench/wasm/*.c)))
bench-wasm: $(BENCH_WASM:%=build/guests/bench/%) guests
bench-sleep: guests
# the program that bench_linux runs on this machine and in sandboxes
$(B)/bench/linux_work: bench/linux/linux_work.c
	@mkdir -p $(@D)
	gcc -std=gnu17 -O2 -Wall -Wextra -Werror -static $< -o $@
bench-%: ## one bench (release build), for instance bench-spawn
	@$(IN_RELEASE) $(addprefix $(RELEASE)/,bench_$* $(if $(filter run daemon linux net replica,$*),doze) \
	  $(if $(filter linux,$*),bench/linux_work))
	@$(RELEASE)/bench_$*
bench: $(BENCHES:%=bench-%) ## every bench; tables, and build/bench/NAME.json
.PHONY: load bench bench-peers
