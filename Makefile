# Thin: every target is a CMake preset or a script of tools/. Objects go to build/<preset>/.
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all program deps demo check check-all bench fuzz install clean
all: build/release/build.ninja
	cmake --build --preset release

# What is installed, without the tests.
program: build/release/build.ninja
	cmake --build --preset release --target berth berth_shared berth_archive

deps:
	tools/deps build

build/release/build.ninja: CMakePresets.json
	tools/deps build
	cmake --preset release

# Runs the bundled model under a budget smaller than its expert weights.
demo: program
	tools/demo

# Release build and every test, then the unit tests under clang and the sanitizers.
check:
	tools/check

check-all:
	tools/check --all

bench: all
	tools/bench

# FUZZ_SECONDS a target, 60 by default.
fuzz:
	tools/fuzz

install: program
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

clean:
	rm -rf build
