# Everything a developer runs. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO     ?= go
LINT   := .bin/golangci-lint
# Which tests, and how often: make test PKG=./tiers/file COUNT=20
PKG    ?= ./...
COUNT  ?= 1
# What was translated from C keeps its data outside of Go's heap, where the race detector
# sees nothing; watched, it only takes five times as long.
RACE   := -race -gcflags='modernc.org/sqlite/lib=-race=false' -gcflags='modernc.org/libc/...=-race=false'

# Google's client links a second transport, which takes a third of the time that a command
# needs to begin, and is not used here.
export GOFLAGS := $(GOFLAGS) -tags=disable_grpc_modules

# What these compile they have in common, and so do the programs that tests build: only the
# race detector needs cgo.
vet lint build: export CGO_ENABLED = 0

.PHONY: help
help: ## List the targets
	@awk 'BEGIN{FS=":.*## "} /^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: setup vet lint build race ## Set up what is missing, then vet, lint, build without cgo, and every test under the race detector

.PHONY: setup
setup: ## Install what the tests need and is missing: redis-server, PostgreSQL, PgBouncer, strace, openssl, a C compiler for the race detector
	@scripts/setup.sh

.PHONY: vet
vet: ## Run go vet on every module
	$(GO) vet ./...
	cd benchmarks && $(GO) vet ./...

.PHONY: lint
lint: $(LINT) ## Run the linter, which also checks who may import whom
	$(LINT) run ./...

# The linter is built from the version that tools/go.mod pins, once.
$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $(LINT)

.PHONY: build
build: ## Build everything without cgo
	$(GO) build ./...

.PHONY: race
race: ## Run every test under the race detector
	$(GO) test $(RACE) -count=$(COUNT) -timeout 20m $(PKG)

.PHONY: quick
quick: ## Run every test without the race detector
	$(GO) test -timeout 10m $(PKG)

.PHONY: test-postgres
test-postgres: setup ## Run the tests of everything above the tiers, and of the command, on PostgreSQL instead of SQLite, but those of SQLite's files and backups
	SAGESTORE_TEST_DATABASE=postgres $(GO) test -count=1 -timeout 20m -skip '$(ON_SQLITE)' ./manager
	SAGESTORE_TEST_DATABASE=postgres $(GO) test -p 1 -count=1 -timeout 20m -skip 'FromABackup' ./agent ./session ./knowledge ./learning
	SAGESTORE_TEST_DATABASE=postgres $(GO) test -count=1 -timeout 20m -run TestScripts -skip 'TestScripts/^($(SCRIPTS_ON_SQLITE))$$' ./cmd/sagestore

# What is about the file of SQLite; restores in place, which on PostgreSQL want to be told
# that no program runs and have tests of their own; what takes long and is the same on both,
# or is on PostgreSQL in any case; and what is about a server that syncs.
ON_SQLITE := ADatabaseInMemoryIsSaid|MakesNoStore|IntoAnEmptyPlace|RestoreInPlace|AnotherStoreIsRestored|BeforeItIsDecided|WritesThatWaited|Nights|WhichBackupsStay|LargerThanATransaction|ToPostgres|OfPostgres|DatabaseOnPostgres|SQLiteCanQuery|DiagnoseSaysEach
SCRIPTS_ON_SQLITE := backup(empty|hand|hints|list|lost|restore|serve|shared)|broken|codecs|damage|encryption|epoch|file|foreign|home|init|migrate|migrate_store|operations|page|processes|redis|restored|stats|unprinted

.PHONY: kill
kill: ## Kill the writers of the database and file tiers 10,000 times and look for losses
	SAGESTORE_KILLS=10000 $(GO) test -count=1 -timeout 4h -run Kill ./tiers/database ./tiers/file

# How often, and where it begins: make torture KILLS=500 SEED=7 DIR=/tmp/t
KILLS  ?= 10000
ROUNDS ?= 1000
SEED   ?= 0
DIR    ?=
IMAGES ?= 2000
FLIPS  ?= 10000
BACKUPKILLS ?= 50

.PHONY: torture
torture: ## Kill 10,000 processes amid transactions over all tiers and look for broken promises
	$(GO) run ./internal/torture -kills $(KILLS) -seed $(SEED) $(if $(DIR),-dir $(DIR))

.PHONY: torture-postgres
torture-postgres: ## 1,000 rounds of that on PostgreSQL and Redis, whose restarts and lost answers are survived
	$(GO) run ./internal/torture -postgres -rounds $(ROUNDS) -kills 1000000 -seed $(SEED) $(if $(DIR),-dir $(DIR))

.PHONY: torture-agents
torture-agents: ## Kill 10,000 processes amid conversations, checkpoints and forks of agents
	$(GO) run ./internal/torture -agents -kills $(KILLS) -seed $(SEED) $(if $(DIR),-dir $(DIR))

.PHONY: torture-backup
torture-backup: ## Flip 10,000 bits of backups, kill 50 times per step and look for broken promises
	SAGESTORE_FLIPS=$(FLIPS) SAGESTORE_KILLS=$(BACKUPKILLS) $(GO) test -count=1 -timeout 4h -run 'Kill|FlippedBit' -v ./backup
	SAGESTORE_KILLS=$(BACKUPKILLS) $(GO) test -count=1 -timeout 1h -run KillOfARestoreToPostgres -v ./manager

.PHONY: powerloss
powerloss: ## Open stores as 2,000 power cuts could have left them and look for losses
	SAGESTORE_IMAGES=$(IMAGES) $(GO) test -count=1 -timeout 2h -run PowerCut -v ./internal/powerloss

.PHONY: fuzz
fuzz: ## Run each fuzz target for 20 seconds
	@scripts/fuzz.sh 20s

.PHONY: bench
bench: ## Measure against the raw drivers and print ratio and budget
	@cd benchmarks && $(GO) run .

# How much longer a sync, and a round trip to Redis and PostgreSQL, take: make bench-far SYNC=1000 RTT=1ms
SYNC ?= 350
RTT  ?= 200us

.PHONY: bench-far
bench-far: ## The same as if each sync took 350 µs longer, and Redis and PostgreSQL were 0.2 ms away
	@cd benchmarks && $(GO) build -o ../.bin/benchmarks .
	@strace -f -qq -o /dev/null --seccomp-bpf -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit=$(SYNC) .bin/benchmarks -rtt $(RTT)

.PHONY: generate
generate: ## Write again what is generated: docs/CONFIG.md
	$(GO) generate ./...

.PHONY: clean
clean: ## Remove what the targets above built
	rm -rf .bin sagestore
