# Nothing but Go, make, git and a C compiler (for the race detector) is needed: the
# control plane, kubectl and the linter are built from pinned Go modules into .bin. The
# test of the status page needs Chromium, and is skipped without it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

MANAGER := cmd/kube-controller-manager
# make fuzz FUZZTIME=1h
FUZZTIME ?= 10m
# make run NODES=3 CONFIG=my.yaml
NODES ?= 10
CONFIG ?= configs/sandbox.yaml
# make run CSI=true: with a CSI driver, for volumes
CSI ?= false
COUNT ?= 1
# make build VERSION=v1.36.3-kcmd.1
VERSION ?= $(shell cat $(MANAGER)/app/VERSION)
VERSION_PACKAGE := k8s.io/component-base/version
# Without grpcnotrace the linker keeps every method of every type, see test/manager/program.
TAGS := $(shell cat $(MANAGER)/TAGS)
GO_BUILD = go build -ldflags '-s -w -X $(VERSION_PACKAGE).gitVersion=$(VERSION)'

# Everything is compiled with the same flags, and without the path of the clone: what one target has compiled, or tested,
# is in Go's caches for the others, and for other clones. Only the race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath -tags=$(TAGS)

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

##@ Try it

.PHONY: run
run: sandbox ## Build and run a sandbox control plane and the manager, until Ctrl-C
	@.bin/sandbox run --nodes $(NODES) --csi=$(CSI) --config $(CONFIG)

.PHONY: sandbox-up
sandbox-up: sandbox ## Run a control plane without a manager, in the background
	@.bin/sandbox up --detach --nodes $(NODES) --csi=$(CSI)

.PHONY: sandbox-down
sandbox-down: sandbox ## Stop the control plane that runs in the background
	@.bin/sandbox down

##@ Build

.PHONY: build
build: ## Build the manager into .bin
	$(GO_BUILD) -o .bin/kube-controller-manager ./$(MANAGER)

.PHONY: image
image: ## Build the container image with docker
	$(GO_BUILD) -o build/kube-controller-manager ./$(MANAGER)
	docker build -t kcmd/kube-controller-manager:$(VERSION) build

.PHONY: sandbox
sandbox:
	go build -ldflags '-s -w' -o .bin/sandbox ./test/cmd/sandbox

.PHONY: golangci-lint
golangci-lint:
	@if [ ! -x .bin/golangci-lint ]; then echo 'building golangci-lint … (about 4 minutes the first time)'; fi
	@cd test/tools/lint && GOWORK=off go build -ldflags '-s -w' -o ../../../.bin/golangci-lint \
	  github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: gotestsum
gotestsum:
	@cd test/tools/gotestsum && GOWORK=off go build -ldflags '-s -w' -o ../../../.bin/gotestsum gotest.tools/gotestsum

.PHONY: generate
generate: ## Write the JSON Schema and the generated parts of docs/ and README.md
	go run ./pkg/config/schema/gen
	go test ./test/docs -run UpToDate -update

.PHONY: chromium
chromium: ## Install Chromium, in which the status page is tested (as root, with apt-get)
	@if command -v chromium chromium-browser google-chrome google-chrome-stable headless_shell >/dev/null; then \
	  echo 'chromium: it is installed'; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update && apt-get install -y --no-install-recommends chromium; \
	else \
	  echo 'chromium: it is not installed. Install the package chromium of your distribution, or run make chromium as root where there is apt-get.' >&2; \
	  exit 1; \
	fi

.PHONY: fmt
fmt: ## Format the sources
	gofmt -w cmd pkg test

##@ Check

.PHONY: test
test: verify vet lint unit integration ## Run every check and every test; CI runs this

.PHONY: ci
ci: ## What CI runs
	.ci/run

.PHONY: verify
verify: ## Check formatting, generated files, and the dependencies of the product
	@files=$$(gofmt -l cmd pkg test); if [ -n "$$files" ]; then echo "not formatted, run make fmt: $$files"; exit 1; fi
	@go run ./pkg/config/schema/gen -check
	@go test -count=1 $(GO_TEST) ./test/docs ./test/rules
	@echo "verify: tests name the rules of docs/specs that they pin; $$(grep -vc '^#' docs/specs/unpinned.txt) rules of what is built are named by none"
	@# Every library is published for reuse; the upstream program itself is none of them.
	@if grep -n '^[^/]*k8s\.io/kubernetes ' go.mod; then echo 'go.mod requires k8s.io/kubernetes'; exit 1; fi
	@packages=$$(go list -deps ./cmd/... ./pkg/...); \
	  if grep -E '^k8s\.io/kubernetes(/|$$)' <<<"$$packages"; then echo 'the product imports k8s.io/kubernetes'; exit 1; fi
	@echo 'verify: the tree is formatted, its generated files are up to date, and the product imports no k8s.io/kubernetes'

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: golangci-lint ## Run golangci-lint, with the rules of .golangci.yml
	.bin/golangci-lint run ./...

# Of a test's program nobody needs the symbols: traces of panics and races name functions and lines without them, and
# linking takes two thirds of the time. make vet does what go test does not do here.
GO_TEST = -vet=off -ldflags='-s -w'

# What fails is run once more by itself, unless more than ten tests fail, or one panics or races. If it passes then, it is
# flaky: that is a fault, which is printed at the end, and does not keep a change waiting.
GOTESTSUM = .bin/gotestsum --format-icons text --hide-summary skipped --rerun-fails=1 \
  --rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report .bin/flaky-$@.txt
FLAKY = if [ -s .bin/flaky-$@.txt ]; then echo '$@: failed, and passed when run again, find out why:'; cat .bin/flaky-$@.txt; fi

.PHONY: unit
unit: gotestsum ## Run the tests that need no control plane, with the race detector
	@rm -f .bin/flaky-$@.txt
	@# The race detector changes what Load takes of a file, so that is measured without it.
	go test $(GO_TEST) -run '^(TestHostileFilesTakeLittle|TestLoadIsBounded|TestLoadBombUsesLittleMemory|FuzzLoad)$$' ./pkg/config
	CGO_ENABLED=1 $(GOTESTSUM) --packages './pkg/... ./cmd/...' -- -race $(GO_TEST)
	@$(FLAKY)

.PHONY: fuzz
fuzz: ## Search for configuration files that Load cannot handle, for FUZZTIME (10m)
	go test ./pkg/config -run '^$$' -fuzz '^FuzzLoad$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 200x

# Three packages at a time, whatever the machine: each starts control planes of its own, and waits for most of its time.
# make verify runs test/docs and test/rules.
.PHONY: integration
integration: sandbox gotestsum ## Run the tests that run against real control planes
	.bin/sandbox build --csi
	@rm -f .bin/flaky-$@.txt
	@packages=$$(go list ./test/... | grep -vE '/test/(docs|rules)$$' | tr '\n' ' '); \
	  $(GOTESTSUM) --packages "$$packages" -- $(GO_TEST) -p 3 -timeout 30m
	@$(FLAKY)

# The same tests, with what takes long in full: the clock of the manager does not run fast
# (KCMD_REAL_CLOCK), and there is more of everything else.
NIGHTLY := KCMD_REAL_CLOCK=yes KCMD_TAKEOVERS=100 KCMD_FAILOVER_LOSSES=200 KCMD_FAILOVER_DEFAULTS=yes \
  KCMD_RELOADS=1000 KCMD_RELOAD_PODS=5000 KCMD_DEPLOYMENT_REPLICAS=1000 KCMD_MASS_FAILURE=yes \
  KCMD_DEVICE_SLICES=10 KCMD_RESTARTS=1000
.PHONY: nightly
nightly: sandbox soak dropin suites endtoend ## Run the long forms of those tests, soak, and upstream's suites, and compare with upstream
	$(NIGHTLY) go test -count=1 -v -p 1 -timeout 3h \
	  $(addprefix ./test/integration/,garbage nodes devices heartbeats leadership promises failover takeover reload)

# make soak SOAK_DURATION=1h SOAK_SEED=1
SOAK_DURATION ?= 10m
.PHONY: soak
soak: sandbox ## Expose a manager to random events and failures, for SOAK_DURATION (10m)
	.bin/sandbox build
	SOAK_DURATION=$(SOAK_DURATION) go test -count=1 -v -timeout 24h ./test/integration/soak

# make faults FAULTS=50 SCENARIO=statefulset, or SCENARIO=statefulset/killed-after/create-pods-2
# make faults RACE=-race: under the race detector
FAULTS ?= 100000
SCENARIO ?= .
RACE ?=
.PHONY: faults
faults: sandbox ## Inject every fault at every write of every scenario, or FAULTS of each SCENARIO
	.bin/sandbox build
	KCMD_FAULTS=$(FAULTS) KCMD_FAULTS_RESULTS=$(CURDIR)/test/faults/results/results.json go test $(RACE) -count=1 -v -timeout 24h -run 'TestFaults/$(SCENARIO)' ./test/faults

.PHONY: dropin
dropin: sandbox ## Play each SCENARIO with upstream's manager, with ours, and with both in turns, and compare what comes of it
	.bin/sandbox build
	KCMD_DROPIN=yes go test -count=1 -v -timeout 24h -run 'TestUpstreamComesToTheSameEnd/$(SCENARIO)' ./test/faults

# make mutations CASE=CronJob: the cases whose names contain that
CASE ?= .
# make suites SUITE=garbagecollector, or SUITE=garbagecollector/TestOrphaning
SUITE ?= .
.PHONY: suites
suites: sandbox ## Run upstream's integration suites, unmodified, against the manager
	KCMD_SUITES=yes go test -count=1 -v -timeout 24h -run 'TestUpstreamsSuites/$(SUITE)' ./test/suites

# make endtoend SPEC='StatefulSet .* rolling'
SPEC ?= .
.PHONY: endtoend
endtoend: sandbox ## Run those specs of upstream's end-to-end suite, unmodified, that simulated nodes allow
	KCMD_ENDTOEND='$(SPEC)' go test -count=1 -v -timeout 24h -parallel 6 -run TestUpstreamsEndToEndSuite ./test/suites

.PHONY: mutations
mutations: ## Put each known failure of the original back into the code, and require that a test catches it
	KCMD_MUTATIONS=yes go test -count=1 -v -timeout 3h -run 'TestCasesAreCaught/$(CASE)' ./test/mutations

##@ Measure

# What has limits is measured in small, what has none at half or full size. Any part can be
# repeated by itself, for example: make bench-run BENCH='--scenarios=steady --rounds=3'
.PHONY: bench
bench: .bin/bench ## Compare with an unmodified kube-controller-manager, in half an hour
	.bin/bench run --mode=unlimited --rounds=2 --scale=0.5 --scenarios=deployments,services,garbage,ballast,change
	.bin/bench run --mode=unlimited --rounds=1 --idle=1m --scenarios=growth,failover,ttl,cronjobs,steady
	.bin/bench run --mode=defaults --rounds=1 --scale=0.1 --scenarios=deployments,services,garbage,change
	.bin/bench render

.PHONY: bench-quick
bench-quick: .bin/bench ## The same in less than twenty minutes: one round each, no CronJobs, no steady state
	.bin/bench run --mode=unlimited --rounds=1 --scale=0.5 --scenarios=deployments,services,garbage,ballast,change
	.bin/bench run --mode=unlimited --rounds=1 --scenarios=growth,failover,ttl
	.bin/bench run --mode=defaults --rounds=1 --scale=0.1 --scenarios=deployments,services,garbage,change
	.bin/bench render

.PHONY: bench-run
bench-run: .bin/bench ## Compare with BENCH as flags of `bench run`; without, everything in full takes hours
	.bin/bench run $(BENCH)
	.bin/bench render

.PHONY: .bin/bench
.bin/bench:
	@go build -o .bin/bench ./test/cmd/bench

.PHONY: bench-render
bench-render: .bin/bench ## Write docs/performance.md and its plots from the existing results
	.bin/bench render

.PHONY: mass-failure
mass-failure: sandbox .bin/bench ## Have 300 nodes fail in all ways at the default rates, and plot what becomes of them
	.bin/sandbox build
	KCMD_MASS_FAILURE=yes KCMD_MASS_FAILURE_DATA=$(CURDIR)/test/benchmark/results/mass-failure.json \
	  go test -count=1 -v -timeout 30m -run TestMassFailure ./test/integration/heartbeats
	.bin/bench render

# make microbench COUNT=10 > new.txt && benchstat old.txt new.txt
.PHONY: microbench
microbench: ## Run the Go benchmarks, COUNT times each (1)
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./pkg/... | grep -vE '^(PASS|ok|\?)'
