# SPDX-License-Identifier: Apache-2.0
# For people. CMake does the work; see CMakePresets.json.
#
#   make bench     measure this host            make asan     tests with Address- and UBSanitizer
#   make test      all tests                    make tsan     tests with ThreadSanitizer
#   make build     the library and the command  make shared   tests of the shared library
#   make format    format the sources           make tidy     clang-tidy over the sources
#   make headers   compile each public header alone
#   make clients   'berth run' with programs of others (their packages start services: nginx, redis,
#                  unbound, haproxy, coturn), and docs/clients.md anew; ARGS='curl wrk' for these
#
# PRESET=dev (or another of CMakePresets.json) instead of release for bench, test, build, headers.
# ARGS='bind --protocol udp' is passed to 'berth bench', and to ctest by the tests.

PRESET ?= release
JOBS ?= $(shell nproc)
ARGS ?=

sources := $(shell find include src bench cli tests examples -name '*.h' -o -name '*.cc' | sort)
# Where sources are that clang-tidy looks at, the fullest first. Tests are left out: with GoogleTest's
# macros they would take longer than all the rest.
directories := $(shell find src bench cli examples -name '*.cc' -printf '%h\n' | \
    sort | uniq -c | sort -rn | sed 's/.* //')

# Configures build/$(1), with the tests; once, and again when the presets change. After that, ninja
# itself sees what must be configured again. Without the tests ($(call configure,X,OFF)) their
# packages are not needed.
define configure
	@if [ CMakePresets.json -nt build/$(1)/build.ninja ] || \
	    ! grep -qsE '^BERTH_BUILD_TESTS:BOOL=(ON|$(2))$$' build/$(1)/CMakeCache.txt; then \
	    cmake --preset $(1) -D BERTH_BUILD_TESTS=$(2) && touch build/$(1)/build.ninja; fi
endef
compile = @cmake --build --preset $(1) -j $(JOBS)
run_tests = @ctest --preset $(1) -j $(JOBS) $(ARGS)

.PHONY: bench build clients test shared asan tsan headers format format-check tidy tidy-directories
.SILENT: bench

bench:
	packaging/install-packages build peers
	$(call configure,$(PRESET),OFF)
	$(call compile,$(PRESET)) --target berth_command
	build/$(PRESET)/berth bench $(ARGS)

build:
	@packaging/install-packages build peers
	$(call configure,$(PRESET),OFF)
	$(call compile,$(PRESET)) --target berth berth_command

test:
	@packaging/install-packages build peers test
	$(call configure,$(PRESET),ON)
	$(call compile,$(PRESET))
	$(call run_tests,$(PRESET))

shared:
	@packaging/install-packages build peers test
	$(call configure,shared,ON)
	$(call compile,shared)
	$(call run_tests,shared)

clients:
	@packaging/install-packages build peers test clients
	$(call configure,$(PRESET),OFF)
	$(call compile,$(PRESET)) --target berth_command
	tests/clients/run_clients $(if $(ARGS),,--markdown docs/clients.md) build/$(PRESET)/berth $(ARGS)

asan tsan:
	@packaging/install-packages build peers test check
	$(call configure,$@,ON)
	$(call compile,$@)
	$(call run_tests,$@)

headers:
	@packaging/install-packages build peers
	$(call configure,$(PRESET),OFF)
	$(call compile,$(PRESET)) --target berth_header_check

format:
	@packaging/install-packages check
	@clang-format-19 -i $(sources)

format-check:
	@packaging/install-packages check
	@clang-format-19 --dry-run --Werror $(sources)

# A stamp for each directory makes it run again only where something changed; any header counts for
# all of them.
tidy:
	@packaging/install-packages build peers check
	$(call configure,tidy,OFF)
	$(call compile,tidy) --target berth_generated
	@$(MAKE) --no-print-directory --keep-going --output-sync=target -j $(JOBS) \
	    tidy-directories

tidy-directories: $(directories:%=build/tidy/checked/%/ok)
	@:

.SECONDEXPANSION:
build/tidy/checked/%/ok: $$(wildcard $$*/*.cc) .clang-tidy .ci/tidy $(filter %.h,$(sources))
	@echo "tidy $*"
	@.ci/tidy build/tidy $*
	@mkdir -p $(@D)
	@touch $@
