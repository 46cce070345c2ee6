# What can be done with this tree. Each target installs what it needs and says what it does.
#
#   make run SHARE=/data        share another folder than the default
#   make run CONFIG=smb.conf    serve a configuration of your own
#   make fuzz SECONDS=600       fuzz longer than a minute per target
#   make MESSAGING=tdb,dgram    build only these ways for the processes to talk (any of tdb, dgram and
#                               stream; also with run, install and test)
#   make simulate SEED=7        live through one simulated server that failed
#   make lint KEEP=1            lower the ceilings of the rules of form to the counts of now
#   make instructions KEEP=1    keep the figures of now as those to compare with
#   make test IO_URING=no       every test of the crates where io_uring is forbidden, as in most
#                               containers; all of conformance with that
#   make conformance ONLY=lease only those tests whose name contains the word
#   make conformance NEWEST=yes the smbtorture of Debian's unstable distribution, in a chroot

.DEFAULT_GOAL := $(if $(MESSAGING),build,help)
.PHONY: bench build cluster cluster-test compare conformance deb docs domain domain-test fuzz help image install instructions limits lint mutations nightly run simulate test

SHARE ?=
CONFIG ?=
ONLY ?=
KEEP ?=
SECONDS ?= 60
SEED ?=
MESSAGING ?=
IO_URING ?=
NEWEST ?=
export MESSAGING IO_URING NEWEST
PREFIX ?= /usr/local
DESTDIR ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## Build a release of the server
	@scripts/build.sh

run: ## Build the server and share a folder
	@SHARE='$(SHARE)' CONFIG='$(CONFIG)' scripts/run.sh

test: ## Run every test
	@scripts/test.sh

conformance: ## Run all of smbtorture, also what takes long
	@scripts/conformance.sh '$(ONLY)'

nightly: ## Run what takes long: conformance, a flood of 20,000 connections, package and image
	@scripts/nightly.sh

domain: ## Start a domain in namespaces with Choro as a member, to try logons
	@scripts/domain.sh

domain-test: ## Test a member of such a domain (part of make test, where root is)
	@scripts/domain.sh test '$(ONLY)'

cluster: ## Start three nodes of CTDB in namespaces, to look at a cluster
	@scripts/cluster.sh

cluster-test: ## Test with such nodes (part of make nightly; make test has one of them)
	@scripts/cluster.sh test

mutations: ## Break the server on purpose and see that the tests notice
	@scripts/mutations.sh

simulate: ## Simulate workers, clients and failures until something breaks
	@SEED='$(SEED)' scripts/simulate.sh

bench: ## Measure Choro and Samba side by side
	@scripts/bench.sh $(ARGS)

compare: ## Send the same random requests to Samba and Choro, and list the differences
	@scripts/compare.sh $(ARGS)

instructions: ## Count the instructions of the engine, and fail if they are a tenth more than before
	@scripts/instructions.sh $(if $(KEEP),--keep)

limits: ## Write the numbers of docs/limits.md anew, from the constants
	@KEEP_LIMITS=1 cargo test --quiet -p choro --test limits

lint: ## Check form, lints, documentation and dependencies
	@scripts/lint.sh $(if $(KEEP),--keep)

docs: ## Build guides and reference as a site, in target/docs
	@scripts/docs.sh

deb: ## Make a Debian package
	@scripts/deb.sh

image: ## Make an image for containers
	@scripts/image.sh

fuzz: ## Fuzz every decoder
	@scripts/fuzz.sh '$(SECONDS)'

install: ## Install program, manual pages, completions and service
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh
