#!/bin/bash
# Starts a program beside a run: joins its control groups, then enters its sandbox.
#
# usage: enter.sh TARGET TICKS ENVIRONMENT CWD TERMINAL GROUP... -- [PROGRAM ARGUMENT...]
#
# TARGET       the pid of the run's program, whose namespaces are entered
# TICKS        when that process started
# ENVIRONMENT  a file of assignments in the shell's language; it is removed
# CWD          where to start inside, or "" for what the run has for it
# TERMINAL     1 where stdout is a terminal for the program to have
# GROUP        the control group folders to join before anything else
#
# Invariants: caps hold before the sandbox is entered, and capabilities are gone before anything of
# the run's choosing is executed. A TARGET that is another process by now is never entered: its
# folder in /proc is held open while TICKS is compared, and its namespaces are opened through it.
# Nothing of the host but handles on the sandbox's own namespaces is open where it can be seen from
# inside. Ends with 125 where the program could not be started.
enter() {
  set -fu
  umask 022
  target=$1 wanted=$2 environment=$3 cwd=$4 terminal=$5
  shift 5
  while [ "$1" != -- ]; do
    echo $$ >"$1/cgroup.procs" || fail 'its control group is gone'
    shift
  done
  shift
  echo 1000 >/proc/self/oom_score_adj
  close_inherited
  exec 3<"$environment"
  rm -f "$environment"

  { exec 4<"/proc/$target"; } 2>/dev/null || fail 'it has ended'
  read -r stat </proc/self/fd/4/stat || fail 'it has ended'
  start_ticks "${stat##*) }"
  [ "$ticks" = "$wanted" ] || fail 'it has ended'
  {
    exec 5</proc/self/fd/4/ns/mnt 6</proc/self/fd/4/ns/pid 7</proc/self/fd/4/ns/net &&
      exec 8</proc/self/fd/4/ns/ipc 9</proc/self/fd/4/ns/uts &&
      if [ -n "${BASH_VERSION-}" ]; then eval 'exec 20</proc/self/fd/4/ns/cgroup'; fi &&
      exec 4</proc/self/fd/4/ns/user
  } 2>/dev/null || fail 'it cannot be entered'
  spaces='--user=/proc/self/fd/4 --mount=/proc/self/fd/5 --pid=/proc/self/fd/6'
  spaces="$spaces --net=/proc/self/fd/7 --ipc=/proc/self/fd/8 --uts=/proc/self/fd/9"
  if [ -n "${BASH_VERSION-}" ]; then spaces="$spaces --cgroup=/proc/self/fd/20"; fi

  # Only who is root inside can let go of the bounding set, and only root has one to let go of.
  bounds=
  if [ "$(id -u)" = 0 ]; then bounds=--bounding-set=-all; fi
  leader=
  if [ "$terminal" = 1 ]; then
    leader='setsid -c'
    exec <&1
  elif [ -n "${BASH_VERSION-}" ]; then
    # A pipe that /dev/stdin can be opened of, also once all was written.
    eval 'exec < <(exec cat)'
  fi
  if [ "$(id -u)" != 0 ]; then
    exec python3 -I -S "${0%.sh}.py" "$own_shell" -c "$drop" einsora \
      "$own_shell" "$bounds" "$leader" "$program" "$cwd" "$@"
  fi
  # shellcheck disable=SC2086
  exec nsenter $spaces --preserve-credentials -- "$own_shell" -c "$drop" einsora \
    "$own_shell" "$bounds" "$leader" "$program" "$cwd" "$@"
}

# Inside, still with the capabilities of who enters: lets go of the namespaces, then of these.
drop='
exec 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
if [ -n "${BASH_VERSION-}" ]; then eval "exec 20<&-"; fi
shell=$1 bounds=$2 leader=$3 program=$4
shift 4
exec setpriv $bounds --inh-caps=-all --no-new-privs $leader "$shell" -c "$program" einsora "$@"
'

# Inside, as the run's own user without capabilities.
program='
unset LC_ALL SHLVL OLDPWD SHELL
. /proc/self/fd/3 || exit 125
exec 3<&-
cwd=$1
shift
if [ -n "$cwd" ]; then
  cd -- "$cwd" || exit 125
else
  cd -- "${HOME:-/tmp}" 2>/dev/null || cd /tmp || cd /
fi
if [ $# -eq 0 ]; then
  for shell in "${SHELL:-}" /bin/bash /bin/zsh /bin/sh; do
    if [ -x "$shell" ]; then exec "$shell" -l; fi
  done
fi
exec "$@"
'

fail() {
  echo "einsora: no program could be started beside it: $1" >&2
  exit 125
}

# What this program's ancestors left open is not for the sandbox. All shells can close descriptors
# up to 9, bash can close the rest.
close_inherited() {
  set +f
  for path in /proc/self/fd/*; do
    fd=${path##*/}
    case $fd in
    [0-2]) ;;
    [3-9]) eval "exec $fd>&-" ;;
    *) if [ -n "${BASH_VERSION-}" ]; then eval "exec $fd>&-"; fi ;;
    esac
  done
  set -f
}

# Field 22 of /proc/PID/stat, given what follows the command's name.
start_ticks() {
  # shellcheck disable=SC2086
  set -- $1
  shift 19
  ticks=$1
}

own_shell=${BASH-/bin/sh}
enter "$@"
