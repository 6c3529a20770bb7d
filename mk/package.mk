# Setting up, showing, installing.
RUN_DATA   := build/run
run: $(B)/doze $(BASE) ## one daemon of this build in the foreground, its data in build/run; ARGS="--log-level=debug"
	@mkdir -p $(RUN_DATA)
	@DOZE_DATA=$(abspath $(RUN_DATA)) images/build $(B)/doze base
	@echo "run: in another shell: export DOZE_DATA=$(abspath $(RUN_DATA)) PATH=$(abspath $(B)):\$$PATH"
	@DOZE_DATA=$(abspath $(RUN_DATA)) exec $(B)/doze daemon $(ARGS)
DEMO_BUILD := build/release-gcc
demo: setup ## set up, build and show the main job
	@$(MAKE) --no-print-directory -s CC=gcc CONFIG=release $(DEMO_BUILD)/doze base
	@DOZE_DATA=build/data images/build $(DEMO_BUILD)/doze base python debian
	@DOZE_DATA=$(abspath build/data) scripts/demo $(DEMO_BUILD)/doze
setup: ## install what scripts/packages lists and is missing
	@scripts/setup
install: ## doze, manual pages, completion, systemd unit and doze.ini under DESTDIR and PREFIX
	@$(IN_RELEASE) $(SHIPPED)
	@scripts/install $(SHIPPED) "$(DESTDIR)" $(PREFIX)
deb: ## a Debian package in build/
	@$(IN_RELEASE) $(SHIPPED) base
	@scripts/deb $(SHIPPED) $(VERSION) build
CLIENTS := build/clients
client-python: ## the wheel of the Python client, in build/clients
	@python3 clients/python/build_backend.py wheel $(CLIENTS) && ls $(CLIENTS)/*.whl
TSC := $${DOZE_PEERS:-$$HOME/.cache/doze-peers}/clients/node_modules
client-typescript: ## the TypeScript client, checked and packed, in build/clients (needs tsc: make bench-peers)
	@rm -rf $(CLIENTS)/typescript && mkdir -p $(CLIENTS) && cp -r clients/typescript $(CLIENTS)/typescript
	@cp LICENSE $(CLIENTS)/typescript
	@cd $(CLIENTS)/typescript && "$(TSC)/.bin/tsc" -p . --typeRoots "$(TSC)/@types" && \
	  npm pack --silent --pack-destination ..
help: ## this list
	@grep -hE '^[a-z_.% -]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 24
clean: ## remove every build directory
	rm -rf build
.PHONY: run demo setup install deb client-python client-typescript help clean
