# SPDX-License-Identifier: Apache-2.0
# A thin layer over Meson: what to install, which build directories there are, how to run them.
#
#	make		build; the command is build/penstock
#	make bench	install what is missing, build, measure the disk under the current directory
#	make check	install what is missing, build everything, run every test
#	make help	the other targets

PYTHON ?= python3
NINJA  ?= ninja
MESON  ?= meson
PREFIX ?= /usr/local
prefix ?= $(PREFIX)

# One build directory per purpose, and how each is configured.
BUILDS = build build-clang build-bare build-asan build-tsan build-portable build-fuzz build-aarch64

OPTIONS-build          = -Dtests=disabled
OPTIONS-build-clang    = -Dtests=enabled -Dwerror=true -Doptimization=0
OPTIONS-build-bare     = -Dtests=enabled -Dwerror=true -Dliburing=disabled -Dlibaio=disabled \
			 -Dchartjs= -Doptimization=0
# -g1: what a report names, function and line, at a fifth less work.
OPTIONS-build-asan     = -Dtests=enabled -Dwerror=true -Db_sanitize=address,undefined \
			 -Db_lundef=false -Doptimization=1 -Ddebug=false -Dc_args=-g1
OPTIONS-build-tsan     = -Dtests=enabled -Dwerror=true -Db_sanitize=thread -Db_lundef=false \
			 -Doptimization=1 -Ddebug=false -Dc_args=-g1
OPTIONS-build-portable = -Dtests=disabled -Dportable=true -Dliburing=enabled -Dlibaio=enabled
OPTIONS-build-fuzz     = -Dtests=enabled -Dfuzz=true -Dpython=disabled -Doptimization=1 \
			 -Db_sanitize=address,undefined -Db_lundef=false \
			 -Dc_args=-fsanitize=fuzzer-no-link
OPTIONS-build-aarch64  = --cross-file build-aarch64-root/cross.ini -Dtests=enabled -Dwerror=true \
			 -Dportable=true -Dliburing=enabled -Dlibaio=enabled -Dpython=enabled
ENV-build-clang        = CC=clang
ENV-build-fuzz         = CC=clang

# Which of Meson's suites run in which directory: DIR all, DIR: none, DIR:A,B those.
CHECK = build build-clang: build-bare:unit build-asan:$(SANITIZED) build-tsan:$(SANITIZED) \
	build-portable:portable
SANITIZED = unit,engine,fault,fuzz,gpu,python
# Where the compiler, the emulator and the packages for it can be had.
CROSS = build-aarch64:unit,engine,python,portable

# The portable command and the wheel, of this machine or by ARCH=aarch64.
PORTABLE = $(if $(filter-out $(shell uname -m),$(ARCH)),build-$(ARCH),build-portable)

# Does $(1)/ have the Meson option $(2) at the value $(3), as JSON?
has = grep -q '"name": "$(2)", "value": $(3)[,}]' $(1)/meson-info/intro-buildoptions.json

# With UNTIL=, in seconds since 1970, what has not begun by then is skipped and named.
IN_TIME   = $(if $(UNTIL),--until=$(UNTIL))
RUN_TESTS = +@MAKE='$(MAKE)' $(PYTHON) tools/run_tests.py $(IN_TIME)

all: build

# With TESTS=1, which tools/run_tests.py says, the tests too; the plain build, which users need
# not wait for, then gets them and takes warnings for errors as the others do.
$(BUILDS): %: %/build.ninja
	$(if $(TESTS),$(STRICT-$@))
	@$(NINJA) -C $@ $(if $(TESTS),all meson-test-prereq)

STRICT-build = @$(call has,build,werror,true) && $(call has,build,tests,"enabled") || \
	$(MESON) configure build -Dwerror=true -Dtests=enabled

build-aarch64/build.ninja: build-aarch64-root/ready
build-aarch64-root/ready: tools/sysroot.sh tools/packages.txt
	@why=$$(tools/sysroot.sh build-aarch64-root) || { echo "build-aarch64: $$why"; exit 1; }
	@touch $@

$(addsuffix /build.ninja,$(BUILDS)): %/build.ninja:
	@command -v $(MESON) >/dev/null && command -v $(NINJA) >/dev/null || \
		{ echo 'meson and ninja are needed: make setup'; exit 1; }
	$(ENV-$*) $(MESON) setup $(OPTIONS-$*) $(OPTIONS) $*

setup:
	@tools/setup.sh build

setup-check:
	@tools/setup.sh build check extra

# Where Python.h was missing when the directory was configured, Meson has to look again.
WITH-PYTHON = $(call has,$(1),python,"enabled") || $(MESON) configure $(1) -Dpython=enabled

python: setup
	@$(MAKE) -s build/build.ninja
	@$(call WITH-PYTHON,build)
	@$(MAKE) --no-print-directory build

# One wheel is for every Python since 3.11; with PYTHON= one that has no GIL, a wheel for that version.
wheel: setup
ifeq ($(PYTHON),python3)
	@$(MAKE) -s $(PORTABLE)/build.ninja
	@$(call WITH-PYTHON,$(PORTABLE))
	@$(MAKE) --no-print-directory $(PORTABLE)
	$(PYTHON) tools/wheel.py $(PORTABLE) dist
else
	$(PYTHON) tools/wheel.py dist
endif

# The Python suite on a CPython without a GIL, which is built from Debian's sources: FREETHREADED=3.14 for that.
freethreaded: setup
	tools/freethreaded.sh $(FREETHREADED)

bench: setup
	@$(MAKE) --no-print-directory build
	build/penstock bench

check: setup-check
	+@why=$$(tools/sysroot.sh build-aarch64-root) && cross='$(CROSS)' || \
		cross="--skipped=build-aarch64: $$why"; \
	MAKE='$(MAKE)' $(PYTHON) tools/run_tests.py $(IN_TIME) $(CHECK) "$$cross"

peers: setup-check
	@tools/setup.sh peers
	+@MAKE='$(MAKE)' $(PYTHON) tools/peers.py $(IN_TIME)

asan tsan: %:
	$(RUN_TESTS) build-$*:$(SANITIZED)

# What is found is kept in build-fuzz/corpus; FUZZ=NAME for one of them, as long as SECONDS says.
SECONDS ?= 60
FUZZ    ?= $(notdir $(wildcard tests/fuzz/corpus/*))
fuzz: setup-check
	@$(MAKE) --no-print-directory build-fuzz
	@set -e; for name in $(FUZZ); do \
		new=build-fuzz/corpus/$$name; mkdir -p $$new; \
		[ $$name != result ] || cp tests/report/sample-*.json $$new; \
		echo "$$name: $(SECONDS) s"; \
		build-fuzz/tests/fuzz/fuzz-$$name -max_total_time=$(SECONDS) -print_final_stats=1 \
			-artifact_prefix=build-fuzz/$$name- $$new tests/fuzz/corpus/$$name \
			2>build-fuzz/$$name.log || { tail -40 build-fuzz/$$name.log; exit 1; }; \
		grep number_of_executed_units build-fuzz/$$name.log; \
	done

portable: $(PORTABLE)
	$(RUN_TESTS) $(PORTABLE):portable

perf: setup-check
	@$(MAKE) --no-print-directory build
	$(PYTHON) tests/perf/perf.py
	$(PYTHON) tests/perf/tune.py
	$(PYTHON) tests/perf/kv_cache.py
	$(PYTHON) tests/perf/trace.py
	$(PYTHON) tests/perf/kv_trace.py
	$(PYTHON) tests/perf/kv.py
	$(PYTHON) tests/perf/store.py
	$(PYTHON) tests/perf/weights.py

format:
	$(PYTHON) tools/format.py

install: build
	@$(call has,build,prefix,"$(prefix)") || $(MESON) configure build -Dprefix=$(prefix)
	DESTDIR='$(DESTDIR)' $(MESON) install -C build
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || ldconfig

clean:
	rm -rf $(BUILDS) build-aarch64-root build-py*t build-py*t-root dist

help:
	@sed -n 's/^| `\(make[^`]*\)` | \(.*\) |$$/\1	\2/p' CONTRIBUTING.md | expand -t 20

.PHONY: all $(BUILDS) setup setup-check python wheel freethreaded bench check peers asan tsan fuzz portable perf \
	format install clean help
