# Thin fronts over CMake. `make demo` and `make test` start from a bare Debian 12 or Ubuntu 24.04.
PACKAGES := cmake ninja-build g++ libboost-graph-dev libeigen3-dev libyaml-cpp-dev libfmt-dev \
            libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libpugixml-dev libtbb-dev catch2 \
            libbenchmark-dev zlib1g-dev libsqlite3-dev libssl-dev libprotobuf-dev protobuf-compiler libmd4c-dev libmd4c-html0-dev libcpp-httplib-dev pkg-config libopenmpi-dev openmpi-bin
# For the Python module and its tests, which are left out without them.
PYTHON_PACKAGES := python3-dev pybind11-dev python3-numpy patchelf python3-venv
# For the notebooks' test and the module's plots and frames, which are left out without them.
NOTEBOOK_PACKAGES := python3-nbclient python3-ipykernel python3-matplotlib python3-pandas
# For the window, which is left out without them. The second name is that of Ubuntu 24.04.
UI_PACKAGES := qt6-base-dev qt6-charts-dev,libqt6charts6-dev libqt6opengl6-dev qt6-svg-dev
# To try the window on a virtual screen.
SCREEN_PACKAGES := xvfb xdotool fonts-dejavu-core
# For the test of the Debian packages, which is left out without it.
PACKAGE_PACKAGES := dpkg-dev
LINT_PACKAGES := clang-format-14 clang-tidy-14
SANITIZER_PACKAGES := clang-14 libclang-rt-14-dev
FUZZ_SECONDS ?= 60
PRESET := release
JOBS ?= $(shell nproc)
DEMO := scenarios/llama-3.1-405b-16384-h100.yaml

.PHONY: help docs demo demo-real lab ui test build configure configure-asan install asan fuzz bench format format-check lint golden golden-pictures

help:
	@echo 'make demo    build, and forecast one training step of Llama 3.1 405B on 16,384 H100s'
	@echo 'make demo-real   train a small model on 4 ranks of this machine, beside its forecast'
	@echo 'make lab     train DistilBERT on 2 ranks in five ways of synchronising, beside their forecasts'
	@echo 'make ui      build the window, and open it on that forecast'
	@echo 'make test    build, and run all tests'
	@echo 'make asan    the tests under AddressSanitizer and UBSan (Clang)'
	@echo 'make fuzz    every parser under libFuzzer, a minute each'
	@echo 'make bench   the speed table of docs/speed.md'
	@echo 'make golden  record the reports of the shipped scenarios anew'
	@echo 'make golden-pictures   record the pictures of the window anew'
	@echo 'make docs    the pages as a site with a search, in build/docs'
	@echo 'make format, make format-check, make lint'

install:
	@tools/install-packages $(PACKAGES)

configure: install
	@cmake --preset $(PRESET) >build-release.log 2>&1 || { cat build-release.log; rm -f build-release.log; exit 1; }
	@rm -f build-release.log

build: configure
	@tools/build $(JOBS)

# The first build leaves out the engine that trains; `make build` adds it, and then it stays.
demo: PRESET = $(shell grep -qs '^STEPCAST_ENGINE:.*=ON' build/release/CMakeCache.txt && echo release || echo demo)
demo: configure
	@tools/build $(JOBS) stepcast
	@tools/demo build/release/stepcast

demo-real: configure
	@tools/build $(JOBS) stepcast
	tools/demo-real build/release/stepcast

# What a student follows with validation/lab/README.md.
lab: configure
	@tools/build $(JOBS) stepcast
	tools/lab build/release/stepcast

ui: install
	@tools/install-packages $(UI_PACKAGES) fonts-dejavu-core
	@$(MAKE) --no-print-directory configure
	@tools/build $(JOBS) stepcast-ui
	build/release/stepcast-ui $(DEMO)

test: install
	@tools/install-packages $(PYTHON_PACKAGES) $(UI_PACKAGES) $(SCREEN_PACKAGES) $(PACKAGE_PACKAGES)
	@tools/install-packages $(NOTEBOOK_PACKAGES) || echo 'no nbclient: the notebooks are not run' >&2
	@tools/install-packages mkdocs || echo 'no mkdocs: the site of the pages is not tried' >&2
	@tools/install-packages chromium || echo 'no chromium: the pages of -o html are not tried in a browser' >&2
	@$(MAKE) --no-print-directory build
	@tools/run-tests release

configure-asan: install
	@tools/install-packages $(SANITIZER_PACKAGES)
	cmake --preset asan

# ASAN_ONLY='base config scripts': the tests of these rooms alone.
asan: configure-asan
	cmake --build --preset asan -j $(JOBS) $(if $(ASAN_ONLY),--target $(ASAN_ONLY:%=test_%))
	@tools/run-tests asan $(ASAN_ONLY)

# FUZZ_ONLY='reader_yaml cluster': these alone are built; all that is built runs.
fuzz: configure-asan
	cmake --build --preset asan -j $(JOBS) --target $(if $(FUZZ_ONLY),$(FUZZ_ONLY:%=fuzz_%),stepcast_fuzzers)
	@tools/run-fuzzers build/asan $(FUZZ_SECONDS)

# BENCH: options of Google Benchmark, such as --benchmark_filter=REGEX.
bench: build
	cmake --preset release -DSTEPCAST_BENCH=ON
	cmake --build --preset release --target tests/bench/all -j $(JOBS)
	build/release/tests/bench/stepcast_bench $(BENCH)
	@# of the window, where it was built
	[ ! -x build/release/tests/bench/stepcast_ui_bench ] || build/release/tests/bench/stepcast_ui_bench $(BENCH)

# The pages as a site with a search, every link checked.
docs:
	@tools/install-packages mkdocs
	@tools/docs-site build/docs

# GOLDEN=reports: without the studies of validation/searches, which take minutes.
golden: build
	tests/golden/update build/release/stepcast $(GOLDEN)

# The pictures of the window that tests hold it against.
golden-pictures: build
	STEPCAST_RECORD_PICTURES=1 QT_QPA_PLATFORM=offscreen QT_FONT_DPI=96 build/release/tests/ui/test_ui_pictures
	git --no-pager diff --stat -- tests/ui/golden

format:
	@tools/install-packages clang-format-14
	@git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -r clang-format-14 -i

format-check:
	@tools/install-packages clang-format-14
	@git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -r clang-format-14 --dry-run -Werror

lint: install
	@tools/install-packages clang-tidy-14
	@tools/lint $(JOBS)
