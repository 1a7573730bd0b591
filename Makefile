# SPDX-License-Identifier: GPL-2.0-only
# ccbpf: the background class for TCP on Linux. `make help` says what there is.

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

BUILD   := build
VENV    := .cache/venv
PYTHON  := $(VENV)/bin/python
VERSION := 0.1.0
PREFIX  ?= /usr/local
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
UNITDIR ?= $(PREFIX)/lib/systemd/system
SBINDIR ?= $(PREFIX)/sbin
DOCDIR  ?= $(PREFIX)/share/doc/ccbpf
V       ?= 0

ifeq ($(V),0)
Q := @
say = @printf '  %-6s %s\n' $(1) $(2)
else
Q :=
say = @:
endif

# The newest clang that is installed, 16 at the least. Deferred: `make deps` may install it in this very run.
CLANG = $(or $(firstword $(foreach v,20 19 18 17 16,$(shell command -v clang-$(v)))),clang)
FORMAT := $(VENV)/bin/clang-format # pinned, see tests/requirements.txt
C_FILES = $(shell git ls-files '*.c' '*.cc' '*.h' ':!vmlinux.h')
CC   := gcc
CXX  := g++
LIBS := libbpf libelf json-c libcap libmnl ncursesw
LOADED := libmicrohttpd # by the command that needs it, loader/metrics/microhttpd.c

WARN       := -Wall -Wextra -Werror
BPF_CFLAGS := -target bpf -mcpu=v3 -g -O2 -std=gnu11 $(WARN) -Wno-unused-parameter -ffile-compilation-dir=. -Iinclude -I.
CFLAGS     ?= -g -O2
CXXFLAGS   ?= -g -O2
HERE       := '-ffile-prefix-map=$(subst ','\'',$(CURDIR))=.' # the same bytes wherever the tree lies: results are kept by them
# -iquote: a header of loader/sys/ must not be found in the place of one of the system's <sys/...>.
ALL_CPPFLAGS = $(HERE) -D_GNU_SOURCE -DCCBPF_VERSION='"$(VERSION)"' -DCCBPF_BPF_DIR='"$(BUILD)/bpf"' \
              -Iinclude -iquote loader $(shell pkg-config --cflags $(LIBS) $(LOADED)) $(CPPFLAGS) $(CFLAGS)
ALL_CFLAGS   = -std=gnu11 $(WARN) $(ALL_CPPFLAGS)
# The one file in C++ has a library in it, which reads what a user writes: what is undefined in it ends the process.
TRAPS        = -fsanitize=undefined -fsanitize-undefined-trap-on-error
ALL_CXXFLAGS = -std=c++17 $(WARN) $(HERE) -D_GNU_SOURCE -D_GLIBCXX_ASSERTIONS -Iinclude -iquote loader $(CPPFLAGS) $(CXXFLAGS)
DEPFLAGS    = -MMD -MP -MT $@

# SANITIZE=1 builds the command a second time, with ASan and UBSan, as build/sanitize/ccbpf. The functional tests run it
# if CCBPF_TEST_COMMAND names it. The runtime is static because some tests preload libraries.
# FUZZ=1 builds its parts as a library for the targets of tests/fuzz, under the same sanitizers: clang has the fuzzer.
FOUND_BY := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
ifdef SANITIZE
OUT        := $(BUILD)/sanitize
SANITIZERS := $(FOUND_BY) -static-libasan -static-libubsan
else ifdef FUZZ
OUT        := $(BUILD)/fuzz
CC          = $(CLANG)
CXX         = $(subst clang,clang++,$(CLANG))
SANITIZERS := $(FOUND_BY) -fsanitize=fuzzer-no-link
else
OUT := $(BUILD)
endif

BPF_OBJS    := $(patsubst bpf/%.bpf.c,$(BUILD)/bpf/%.bpf.o,$(wildcard bpf/*.bpf.c))
LOADER_SRCS := $(wildcard loader/*.c loader/*/*.c loader/*/*/*.c)
LOADER_OBJS := $(patsubst loader/%.c,$(OUT)/loader/%.o,$(LOADER_SRCS)) $(OUT)/loader/config/tree.o
TOOLS       := $(patsubst tests/lab/engine/%.c,$(BUILD)/tests/%,$(wildcard tests/lab/engine/*.c)) $(BUILD)/tests/traffic
LAWS        := $(BUILD)/tests/liblaws.so
NO_SIM      := $(patsubst %,bpf/%.bpf.c,assign chosen chosen_tcp gateway held renice renice_rx run rx_le rx_moved rx_open unit) # they walk the kernel's sockets, choose for them, or receive
SIM         := $(BUILD)/sim/sim $(patsubst bpf/%.bpf.c,$(BUILD)/sim/%.so,$(filter-out $(NO_SIM),$(wildcard bpf/*.bpf.c))) \
               $(BUILD)/sim/ledbatpp.so $(BUILD)/sim/ledbatpp_apple.so
FUZZERS     := $(patsubst tests/fuzz/%,$(BUILD)/fuzz/%,$(basename $(wildcard tests/fuzz/*.c tests/fuzz/*.cc)))
TEST_BPF    := $(patsubst %,$(BUILD)/tests/%.bpf.o,empty cubic empty_tc sockops ledbatpp rledbatpp neighbour)

.PHONY: help deps all demo picture test test-hard fuzz fuzzers fuzzers-compile soak bench kernels lint lab lab-list sim sim-report sim-agreement \
        sim-constants sweep report results lab-guest chroot installed install uninstall deb rpm format clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing (Debian 12, 13, Ubuntu 24.04; asks nothing)
	$(Q)packaging/deps.sh $(VENV)

all: $(BPF_OBJS) installed $(OUT)/netnice $(OUT)/plot.py $(OUT)/many-rules $(TOOLS) $(LAWS) $(TEST_BPF) $(SIM) ## build the programs and the command: build/ccbpf

demo: deps ## a background transfer beside a foreground one, without and with tcp_lp and le; a table and a plot
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m tests.lab.demo $(DEMO_ARGS)

picture: deps ## docs/top.svg, a picture of `ccbpf top` with flows of its own; needs root
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m tests.functional.rules.picture docs/top.svg

# Four tests boot guests for more than a minute each: `make test-hard` runs them.
GUEST_TESTS = tests/kernels/test_kernels.py::test_every_controller_works_on \
	tests/lab/tests/test_sweep.py::test_snakemake_makes_the_runs_of_make_lab \
	tests/lab/tests/test_demo.py::test_virtual_it_finds_the_same

test: lab-guest ## all tests but those of test-hard: those that keep time beside this kernel alone, at the end
	$(Q)packaging/deps.sh $(VENV) sweep
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m pytest tests --ignore=tests/hard --ignore=tests/cluster $(GUEST_TESTS:%=--deselect=%) -m 'not quiet and not kills' -n 2 --dist loadgroup $(PYTEST_ARGS); beside=$$?; \
	$(PYTHON) -m pytest tests --ignore=tests/hard --ignore=tests/cluster -m 'quiet and not kills' $(PYTEST_ARGS) && exit $$beside

.PHONY: test-hard soak cluster

# Under the sanitizers run the tests that run the command. The other functional tests, and the four files left out here, try the programs
# in the kernel: they run the same few commands each time.
COMMAND_TESTS = tests/functional/cli tests/functional/rules tests/functional/aqm tests/functional/gateway tests/functional/flow/test_churn.py \
	$(patsubst %,--ignore=tests/functional/%.py,aqm/test_nf_red gateway/test_packets rules/test_download_limited rules/test_download_sockets)

test-hard: lab-guest ## the tests that take longer: sanitizers, kills, fuzzers, programs, RFCs; SEED=n repeats the random draws
	$(Q)packaging/deps.sh $(VENV) sweep
	$(Q)packaging/deps.sh $(VENV) hard
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(MAKE) --no-print-directory all SANITIZE=1
	$(Q)$(MAKE) --no-print-directory fuzzers FUZZ=1
	$(Q)export CCBPF_TEST_COMMAND=$(BUILD)/sanitize/ccbpf CCBPF_SEED='$(or $(SEED),$(shell shuf -i 0-4294967295 -n 1))'; \
	$(PYTHON) -m pytest $(COMMAND_TESTS) tests/hard $(GUEST_TESTS) -m 'not quiet' -n 2 --dist loadgroup $(PYTEST_ARGS); beside=$$?; \
	$(PYTHON) -m pytest $(COMMAND_TESTS) tests/hard -m quiet $(PYTEST_ARGS) && exit $$beside

cluster: deps ## docs/kubernetes.md on a real cluster of one node, which is built first: half an hour of a core, once
	$(Q)packaging/deps.sh $(VENV) hard
	$(Q)packaging/deps.sh $(VENV) cluster
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m pytest tests/cluster $(PYTEST_ARGS)

fuzz: deps ## the parsers, fed what libFuzzer finds: FOR=10m (the default) of each target, TARGET=rule,…; SEED=n
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(MAKE) --no-print-directory fuzzers FUZZ=1
	$(Q)$(PYTHON) -m tests.fuzz $(if $(FOR),--for $(FOR)) $(if $(SEED),--seed $(SEED)) $(if $(TARGET),--target $(TARGET))

soak: deps ## traffic, commands ten at once and kills for a long time: FOR=30m (the default), 24h, 2d; SEED=n
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m tests.soak $(if $(FOR),--for $(FOR)) $(if $(SEED),--seed $(SEED))

bench: deps ## nanoseconds per ACK, goodput, latencies of the command: ratios measured in one run
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m tests.bench

kernels: lab-guest ## load every program on each guest kernel, pass traffic; a table, and what the verifier pays
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) -m tests.kernels $(KERNEL)

lab: lab-guest ## the experiments, judged: EXP=id,… or file.toml, ONLY=controller,…, KERNEL=6.12, SET=quick or full, JOBS=n, REPEAT=draws, KEEP=run
	$(Q)$(MAKE) --no-print-directory all
	$(Q)EXP='$(EXP)' ONLY='$(ONLY)' KERNEL='$(KERNEL)' SET='$(SET)' JOBS='$(JOBS)' REPEAT='$(REPEAT)' KEEP='$(KEEP)' \
		$(PYTHON) -m tests.lab

lab-list: deps ## the experiments' ids, one line each
	$(Q)EXP='$(EXP)' KERNEL='$(KERNEL)' SET='$(SET)' $(PYTHON) -m tests.lab list

sim: deps ## rows in the simulator: hundreds of draws, lives of hours: EXP, JOBS, REPEAT as above, SET=sim, quick or full
	$(Q)$(MAKE) --no-print-directory all
	$(Q)EXP='$(EXP)' SET='$(SET)' JOBS='$(JOBS)' REPEAT='$(REPEAT)' $(PYTHON) -m tests.sim

sim-report: deps ## tests/sim/RESULTS.md, from what `make sim` has left
	$(Q)$(PYTHON) -m tests.sim report

sim-agreement: deps ## the simulator beside what the lab has in build/lab: tests/sim/AGREEMENT.md
	$(Q)$(MAKE) --no-print-directory all
	$(Q)EXP='$(EXP)' JOBS='$(JOBS)' $(PYTHON) -m tests.sim agreement

sim-constants: deps ## other values of the constants of le and of downloads in the simulator: ONLY, JOBS; tests/sim/CONSTANTS.md
	$(Q)$(MAKE) --no-print-directory $(SIM)
	$(Q)ONLY='$(ONLY)' JOBS='$(JOBS)' $(PYTHON) -m tests.sim constants

sweep: lab-guest ## the same as jobs of Snakemake: EXP, SET, JOBS, REPEAT as above, KERNEL=6.1,6.12, PROFILE=machine, slurm, …
	$(Q)packaging/deps.sh $(VENV) sweep
	$(Q)$(MAKE) --no-print-directory all
	$(Q)EXP='$(EXP)' KERNEL='$(KERNEL)' SET='$(SET)' JOBS='$(JOBS)' REPEAT='$(REPEAT)' \
		PROFILE='$(PROFILE)' $(PYTHON) -m tests.lab.sweep

report: deps ## one page of all experiments that were run: build/lab/<kernel>/report.html
	$(Q)EXP='$(EXP)' KERNEL='$(KERNEL)' SET='$(SET)' REPEAT='$(REPEAT)' $(PYTHON) -m tests.lab report

results: deps ## docs/results and the README's tables, from docs/results/store and what `make lab` has left in build/lab
	$(Q)$(PYTHON) -m tests.lab results

lab-guest: ## the virtual lab's guests: fetch and unpack kernels and tools; once, then offline
	$(Q)packaging/deps.sh $(VENV) lab
	$(Q)$(PYTHON) -m tests.lab.guest

chroot: ## demo and test in a clean system made with debootstrap: SUITE=bookworm, trixie or noble
	$(Q)packaging/chroot.sh $(or $(SUITE),trixie)

installed: $(OUT)/ccbpf $(OUT)/man/ccbpf.8 $(OUT)/completions/ccbpf.bash

UNITS   := $(patsubst packaging/systemd/%.in,%,$(wildcard packaging/systemd/*.in))
BASHDIR := $(PREFIX)/share/bash-completion/completions
FISHDIR := $(PREFIX)/share/fish/vendor_completions.d
CONFIG  := $(wildcard packaging/ccbpf.toml)
EXAMPLES := $(patsubst packaging/%,%,$(wildcard $(addprefix packaging/examples/,README *.slice *.d/*)))

install: installed ## to $(PREFIX): command, manual pages, completions, units; /etc/ccbpf.toml, if there is none
	install -D -m 755 $(OUT)/ccbpf $(DESTDIR)$(SBINDIR)/ccbpf
	install -d $(DESTDIR)$(PREFIX)/bin
	ln -srf $(DESTDIR)$(SBINDIR)/ccbpf $(DESTDIR)$(PREFIX)/bin/netnice # users have no sbin in their PATH
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 $(OUT)/man/ccbpf.toml.5
	install -d $(DESTDIR)$(PREFIX)/share/man/man7 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 $(OUT)/man/*.7 $(DESTDIR)$(PREFIX)/share/man/man7
	install -m 644 $(OUT)/man/ccbpf*.8 $(DESTDIR)$(PREFIX)/share/man/man8
	ln -sf ccbpf-run.8 $(DESTDIR)$(PREFIX)/share/man/man8/netnice.8
	install -D -m 644 $(OUT)/completions/ccbpf.bash $(DESTDIR)$(BASHDIR)/ccbpf
	ln -sf ccbpf $(DESTDIR)$(BASHDIR)/netnice
	install -D -m 644 $(OUT)/completions/ccbpf.fish $(DESTDIR)$(FISHDIR)/ccbpf.fish
	ln -sf ccbpf.fish $(DESTDIR)$(FISHDIR)/netnice.fish
	install -D -m 644 $(OUT)/completions/_ccbpf $(DESTDIR)$(ZSHDIR)/_ccbpf
	install -d $(DESTDIR)$(UNITDIR)
	for unit in $(UNITS); do \
		sed -e 's|@sbindir@|$(SBINDIR)|' -e '/@sandbox@/{r packaging/systemd/sandbox' -e 'd}' packaging/systemd/$$unit.in | \
			install -m 644 /dev/stdin $(DESTDIR)$(UNITDIR)/$$unit || exit; \
	done
	install -D -m 644 packaging/grafana/ccbpf.json $(DESTDIR)$(PREFIX)/share/ccbpf/grafana/ccbpf.json
	install -m 644 loader/cmd/plot.py $(DESTDIR)$(PREFIX)/share/ccbpf/plot.py
	for file in $(EXAMPLES); do install -D -m 644 packaging/$$file $(DESTDIR)$(DOCDIR)/$$file || exit; done
	$(if $(CONFIG),[ -e $(DESTDIR)/etc/ccbpf.toml ] || install -D -m 644 $(CONFIG) $(DESTDIR)/etc/ccbpf.toml)

uninstall: ## from $(PREFIX); /etc/ccbpf.toml stays
	rm -f $(addprefix $(DESTDIR),$(SBINDIR)/ccbpf $(PREFIX)/bin/netnice $(PREFIX)/share/man/man7/ccbpf-controllers.7 \
		$(addprefix $(BASHDIR)/,ccbpf netnice) $(addprefix $(FISHDIR)/,ccbpf.fish netnice.fish) $(ZSHDIR)/_ccbpf \
		$(PREFIX)/share/man/man5/ccbpf.toml.5 $(addprefix $(PREFIX)/share/man/man8/,ccbpf.8 ccbpf-*.8 netnice.8) $(addprefix $(UNITDIR)/,$(UNITS)) \
		$(addprefix $(PREFIX)/share/ccbpf/,grafana/ccbpf.json plot.py) $(addprefix $(DOCDIR)/,$(EXAMPLES)))

deb: ## packages for Debian and Ubuntu: build/deb
	$(Q)packaging/deps.sh $(VENV) deb
	$(Q)packaging/deb.sh

rpm: ## the package for Fedora: build/rpm
	$(Q)packaging/deps.sh $(VENV) rpm
	$(Q)packaging/rpm.sh

format: deps ## clang-format over all C, ruff over all Python
	$(Q)$(FORMAT) -i $(C_FILES)
	$(Q)$(VENV)/bin/ruff check -q --fix-only
	$(Q)$(VENV)/bin/ruff format -q

lint: deps ## formats and rules: clang-format, ruff, mypy, shellcheck, codespell
	$(Q)$(FORMAT) --dry-run -Werror $(C_FILES)
	$(Q)$(VENV)/bin/ruff format -q --check
	$(Q)$(VENV)/bin/ruff check -q
	$(Q)$(VENV)/bin/mypy
	$(Q)$(VENV)/bin/shellcheck packaging/*.sh packaging/*/*.sh packaging/debian/*.prerm .ci/run
	$(Q)$(VENV)/bin/codespell $$(git ls-files)

clean: ## remove what was built (the downloads in .cache stay)
	rm -rf $(BUILD)

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c Makefile
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

vpath %.bpf.c bpf tests/bench tests/functional/aqm tests/lab/peers
$(TEST_BPF): $(BUILD)/tests/%.bpf.o: %.bpf.c Makefile
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

$(OUT)/loader/%.o: loader/%.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(SANITIZERS) $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

$(OUT)/loader/%.o: loader/%.cc Makefile
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(ALL_CXXFLAGS) $(or $(SANITIZERS),$(TRAPS)) $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

$(OUT)/loader/sys/objects.o: $(BPF_OBJS)

$(OUT)/ccbpf: $(LOADER_OBJS)
	$(call say,LD,$@)
	$(Q)$(CXX) -static-libstdc++ -static-libgcc $(LDFLAGS) $(SANITIZERS) -o $@ $^ $(shell pkg-config --libs $(LIBS))

# Generated from the tables that the command prints; the date in the manual is that of the commit.
EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date +%s))

$(OUT)/man/ccbpf.8: packaging/manual.py packaging/tables.py $(wildcard packaging/man/*) docs/monitoring.md loader/top/screen.c $(OUT)/ccbpf
	$(call say,MAN,$(@D))
	$(Q)SOURCE_DATE_EPOCH=$(EPOCH) python3 -B packaging/manual.py $(OUT)/ccbpf $(@D)

$(OUT)/completions/ccbpf.bash: packaging/completions.py packaging/tables.py $(OUT)/ccbpf
	$(call say,GEN,$(@D))
	$(Q)python3 -B packaging/completions.py $(OUT)/ccbpf $(@D)

# Standing rules by the thousand, for a test and for the bench.
$(OUT)/many-rules: tests/functional/rules/many.c $(filter-out %/main.o $(OUT)/loader/cmd/% $(OUT)/loader/config/%,$(LOADER_OBJS))
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(SANITIZERS) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs $(LIBS))

# The targets of tests/fuzz, C or C++: each with the parts of the command that it calls.
fuzzers: $(FUZZERS)
fuzzers-compile: $(FUZZERS:=.o)

$(BUILD)/fuzz/libccbpf.a: $(filter-out %/main.o,$(LOADER_OBJS))
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

FUZZ_CFLAGS = $(WARN) $(ALL_CPPFLAGS) $(SANITIZERS) -Itests/fuzz/frame $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

$(BUILD)/fuzz/%.o: tests/fuzz/%.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(FUZZ_CFLAGS)

$(BUILD)/fuzz/%.o: tests/fuzz/%.cc Makefile
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(FUZZ_CFLAGS)

$(FUZZERS): $(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(BUILD)/fuzz/frame/frame.o $(BUILD)/fuzz/libccbpf.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(SANITIZERS) -fsanitize=fuzzer -o $@ $^ $(shell pkg-config --libs $(LIBS))

# Where the command finds it before it is installed.
$(OUT)/plot.py:
	$(call say,LN,$@)
	@mkdir -p $(@D)
	$(Q)ln -srf loader/cmd/plot.py $@

$(OUT)/netnice:
	$(call say,LN,$@)
	@mkdir -p $(@D)
	$(Q)ln -sf ccbpf $@

$(LAWS): tests/unit/laws.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -g -O2 -fPIC -shared -Iinclude -I. $(DEPFLAGS) -MF $(@:.so=.d) -o $@ $<

$(BUILD)/tests/%: tests/lab/engine/%.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -D_GNU_SOURCE -g -O2 -Iinclude $(DEPFLAGS) -MF $@.d -o $@ $< -lm

# Static, so that it runs in any guest; without contraction, so that its random numbers are the same on every machine.
$(BUILD)/tests/traffic: $(wildcard tests/lab/traffic/*.[ch]) Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) $(HERE) -D_GNU_SOURCE -g -O2 -ffp-contract=off -static -o $@ $(filter %.c,$^)

# The simulator: the programs as they are, as shared objects of the host, against the helpers' stubs; and TCP around them. OVERLAY: a
# directory of headers that are taken before those of include (tests/sim/constants.py).
SIM_CFLAGS = -std=gnu11 $(WARN) -Wno-unused-parameter -g -O2 -D_GNU_SOURCE -DBPF_NO_PRESERVE_ACCESS_INDEX \
             $(OVERLAY:%=-I%) -Itests/sim/stub -Iinclude -I.

$(BUILD)/sim/%.so: %.bpf.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(SIM_CFLAGS) -fPIC -shared -Wl,-Bsymbolic $(DEPFLAGS) -MF $(@:.so=.d) -o $@ $<

$(BUILD)/sim/ledbatpp_apple.so: $(BUILD)/sim/ledbatpp.so # one source, two controllers
	$(Q)ln -sf $(<F) $@

$(BUILD)/sim/%.o: tests/sim/%.c Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SIM_CFLAGS) -ffp-contract=off $(shell pkg-config --cflags json-c) $(DEPFLAGS) -MF $(@:.o=.d) -c $< -o $@

$(BUILD)/sim/sim: $(patsubst tests/sim/%.c,$(BUILD)/sim/%.o,$(wildcard tests/sim/*.c))
	$(call say,LD,$@)
	$(Q)$(CC) -rdynamic -o $@ $^ $(shell pkg-config --libs json-c) -lm -ldl

# What the compilers have read. A file among these that is no more (-MP leaves out a source that has moved) counts as changed.
READ    := $(wildcard $(BUILD)/bpf/*.d $(BUILD)/tests/*.d $(BUILD)/sim/*.d $(BUILD)/fuzz/*.d $(BUILD)/fuzz/frame/*.d $(LOADER_OBJS:.o=.d))
-include $(READ)
MISSING := $(if $(READ),$(shell grep -hoE '[^ :]+\.(c|cc|h|hpp)\b' $(READ) | sort -u | while read -r file; do [ -e "$$file" ] || echo "$$file"; done))
$(MISSING): ;
