# Makefile - the entry points; CMake and Ninja do the work.
#
#   make                     builds into build/; the program is build/redlite
#   make demo                installs what is missing, builds, and lets the shipped model write
#   make test                the same for the test suite; the last lines are ctest's
#   make test-long           the exhaustive versions as well (hours of machine time at worst)
#   make SAN=address test    the suite under AddressSanitizer + UndefinedBehaviorSanitizer, in
#                            build-address/; SAN=thread, SAN=undefined likewise
#   make install             honours PREFIX (/usr/local) and DESTDIR
#   make format              formats every C file
#
# CC=clang chooses the compiler of a fresh build folder, BUILD=DIR another folder, JOBS=N the
# number of compilers and tests at a time, CMAKE_FLAGS="..." is handed to CMake.

PREFIX ?= /usr/local
DESTDIR ?=
SAN ?=
BUILD ?= build$(if $(SAN),-$(SAN))
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=

sanitize_address := address,undefined
sanitize = $(if $(SAN),-DRL_SANITIZE=$(or $(sanitize_$(SAN)),$(SAN)))
compiler = $(if $(filter-out default,$(origin CC)),-DCMAKE_C_COMPILER=$(CC))
configure = cmake -S . -B $(BUILD) -G Ninja $(compiler) $(sanitize) $(CMAKE_FLAGS)
ninja = ninja -C $(BUILD) -j $(JOBS)
ctest = cd $(BUILD) && ctest --output-on-failure --no-tests=error -j $(JOBS)

.PHONY: all demo test test-long install format clean deps deps-test

all: $(BUILD)/build.ninja
	@$(ninja)

# Tests need more packages than the program, so a first build leaves them out.
$(BUILD)/build.ninja:
	$(configure) -DRL_TESTS=OFF

deps:
	@tools/install-deps.sh build

deps-test:
	@tools/install-deps.sh test

demo: deps
	@$(MAKE) --no-print-directory all
	@echo
	@prompt="Once upon a time there was a little bear"; printf '%s' "$$prompt"; \
	$(BUILD)/redlite generate -q -p "$$prompt" -n 160 -s 7

test: deps-test
	$(configure) -DRL_TESTS=ON
	@$(ninja)
	@$(ctest) -LE long

test-long: deps-test
	$(configure) -DRL_TESTS=ON
	@$(ninja)
	@export RL_CPU=scalar; $(ctest) -L 'unit|golden|e2e' -LE long
	@$(ctest) --timeout 14400

install:
	$(configure) -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)) $(if $(wildcard $(BUILD)/build.ninja),,-DRL_TESTS=OFF)
	@$(ninja)
	DESTDIR=$(DESTDIR) cmake --install $(BUILD)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@[ ! -d $(BUILD) ] || $(ninja) -t clean
