#!/bin/sh
# The keeper of one run: starts its sandbox, waits for it, and writes down how it ended.
#
# usage: keeper.sh FOLDER BWRAP COUNTER GROUP... -- PROGRAM ARGUMENT...
#
# FOLDER   the run's folder; bwrap.args in it holds the sandbox's options, separated by NUL
# COUNTER  the file that counts kills for lack of memory, or "@MOUNT" for its own version 2 group
# GROUP    the control group folders to join before anything else
#
# Invariants: whoever links keeper.json first owns the run, so a run starts once at most, and
# whatever runs can be found by it; exit.json appears whole or not at all. It outlives the agent
# that started it.
keep() {
  set -fu
  umask 077
  # The agent's terminal and its end are none of the run's business.
  trap '' HUP INT QUIT TERM
  cd "$1" || exit 1
  bwrap=$2 counter=$3
  shift 3
  while [ "$1" != -- ]; do
    echo $$ >"$1/cgroup.procs" || exit 1
    shift
  done
  shift
  case $counter in
  @*)
    IFS=: read -r _ _ own </proc/self/cgroup || exit 1
    counter=${counter#@}$own/memory.events
    ;;
  esac

  read -r stat </proc/$$/stat && read -r boot_id </proc/sys/kernel/random/boot_id || exit 1
  start_ticks "${stat##*) }"
  printf '{"pid":%d,"start_ticks":%s,"boot_id":"%s","counter":"%s"}\n' \
    $$ "$ticks" "$boot_id" "$counter" >keeper.json.$$ || exit 1
  ln keeper.json.$$ keeper.json || exit 1
  rm -f keeper.json.$$

  # Read by the sandbox through the open file; on the disk the environment need not stay.
  exec 3<bwrap.args
  rm -f bwrap.args
  (
    trap - HUP INT QUIT TERM
    # Where memory runs out the sandbox dies, not its keeper.
    echo 1000 >/proc/self/oom_score_adj
    close_inherited
    exec "$bwrap" --args 3 -- "$@" </dev/null >>out.log 2>&1
  )
  status=$?

  kills=0
  while read -r key value; do
    if [ "$key" = oom_kill ]; then kills=$value; fi
  done <"$counter"
  printf '{"status":%d,"oom_kills":%s}\n' "$status" "$kills" >exit.json.tmp &&
    mv exit.json.tmp exit.json
  exit 0
}

# What this program's ancestors left open is not for the sandbox. All shells can close descriptors
# up to 9, bash can close the rest.
close_inherited() {
  set +f
  for path in /proc/self/fd/*; do
    fd=${path##*/}
    case $fd in
    [0-3]) ;;
    [4-9]) eval "exec $fd>&-" ;;
    *) if [ -n "${BASH_VERSION-}" ]; then eval "exec $fd>&-"; fi ;;
    esac
  done
}

# Field 22 of /proc/PID/stat, given what follows the command's name.
start_ticks() {
  # shellcheck disable=SC2086
  set -- $1
  shift 19
  ticks=$1
}

keep "$@"
