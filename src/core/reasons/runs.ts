/**
 * Codes of what a run may wait for or end with: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const runReasons = {
  waiting_for_placement: { status: 409, sentence: 'Not decided yet.', fix: null },
  sandbox_missing: {
    status: 409,
    sentence: 'No sandbox: {why}. Nothing runs without one.',
    fix: 'apt-get install bubblewrap',
  },
  cap_missing: {
    status: 409,
    sentence: 'Memory cannot be capped on this machine: {why}.',
    fix: 'run bin/einsora up as root, or in a systemd user session',
  },
  python_missing: {
    status: 409,
    sentence:
      'No engine: llama-server is not on the PATH, and neither uv nor Python 3.10 with venv is there to fetch one.',
    fix: 'apt-get install python3-venv',
  },
  engine_missing: {
    status: 409,
    sentence: 'The engine could not be installed: {why}.',
    fix: 'bin/einsora doctor',
  },
  download_corrupt: {
    status: 409,
    sentence: '{what} arrived with another checksum than the pinned one and was thrown away.',
    fix: 'check who answers for the package registry on this network, then: {again}',
  },
  download_failed: {
    status: 409,
    sentence: '{what} could not be fetched: {why}.',
    fix: 'check the network, then: {again}',
  },
  disk_full: {
    status: 507,
    sentence: '{needed} are needed on the disk of {folder}, {free} are free.',
    fix: 'free some space, then: {again}',
  },
  model_file_unreadable: {
    status: 409,
    sentence: 'The model file cannot be read: {why}.',
    fix: 'ls -l {path}',
  },
  model_file_invalid: {
    status: 409,
    sentence: 'The model file was refused: {why}.',
    fix: 'fetch it again from its publisher, as GGUF',
  },
  exec_failed: {
    status: 409,
    sentence: 'No program could be started beside {name}: {why}.',
    fix: 'bin/einsora show {name}',
  },
  stream_cut: {
    status: 409,
    sentence: 'The connection to {name} was cut: {why}.',
    fix: 'bin/einsora show {name}',
  },
  file_not_found: { status: 404, sentence: 'There is no {path} in {name}.', fix: null },
  file_refused: {
    status: 409,
    sentence: '{path} in {name} cannot be used: {why}.',
    fix: 'bin/einsora exec {name} -- ls -la',
  },
  workspace_in_use: {
    status: 409,
    sentence: 'What {name} keeps cannot go while a run of it is there: {why}.',
    fix: 'bin/einsora stop {name}',
  },
  engine_exited: {
    status: 409,
    sentence: 'The engine ended by itself ({how}).',
    fix: 'bin/einsora logs {name}',
  },
  notebook_exited: {
    status: 409,
    sentence: 'JupyterLab ended by itself ({how}).',
    fix: 'bin/einsora logs {name}',
  },
  notebook_never_ready: {
    status: 409,
    sentence: 'JupyterLab made no progress for {waited} and was ended.',
    fix: 'bin/einsora logs {name}',
  },
  notebook_hangs: {
    status: 409,
    sentence: 'JupyterLab stopped answering for {waited} and was ended.',
    fix: 'bin/einsora logs {name}',
  },
  environment_missing: {
    status: 409,
    sentence: 'The environment of notebooks could not be installed: {why}.',
    fix: 'bin/einsora doctor',
  },
  instance_exited: {
    status: 409,
    sentence: 'Its program ended ({how}).',
    fix: 'bin/einsora logs {name}',
  },
  instance_exited_at_once: {
    status: 409,
    sentence:
      'Its program ended as soon as it was started ({how}); an instance runs as long as its program does.',
    fix: 'bin/einsora logs {name}',
  },
  memory_kill: {
    status: 409,
    sentence:
      'A program in it was ended for lack of memory ({count} so far): it has {memory}. A kernel that dies without a word died of this.',
    fix: 'bin/einsora rm {name}, then launch it with a larger --class',
  },
  engine_never_ready: {
    status: 409,
    sentence: 'The engine made no progress for {waited} and was ended.',
    fix: 'bin/einsora logs {name}',
  },
  engine_hangs: {
    status: 409,
    sentence: 'The engine stopped answering for {waited} and was ended.',
    fix: 'bin/einsora logs {name}',
  },
  engine_stuck: {
    status: 409,
    sentence:
      'The engine made no token for {waited}, though its health check said that it was well, and was ended.',
    fix: 'bin/einsora logs {name}',
  },
  out_of_memory: {
    status: 409,
    sentence: 'It used more than its {memory} of memory and was ended.',
    fix: 'bin/einsora rm {name}, then launch it with a larger --class',
  },
  machine_rebooted: {
    status: 409,
    sentence: '{machine} was restarted, which ended it.',
    fix: null,
  },
  machine_fenced: {
    status: 409,
    sentence: '{machine} was declared powered off by {who}, which ends it.',
    fix: null,
  },
  trust_lost: {
    status: 409,
    sentence: 'It may not run on its machine any more: whose that is or who shares it changed.',
    fix: 'bin/einsora start {name}',
  },
  creator_disabled: {
    status: 409,
    sentence: 'It was stopped because the user who made it was disabled.',
    fix: 'somebody of its tenant may start it again: bin/einsora start {name}',
  },
  tenant_was_disabled: {
    status: 409,
    sentence: 'It was stopped because its tenant was disabled.',
    fix: 'once the tenant is enabled again: bin/einsora start {name}',
  },
  engine_refused: {
    status: 409,
    sentence: 'The engine is up but answered its first question with {status}: {why}.',
    fix: 'bin/einsora logs {name}',
  },
  agent_failed: {
    status: 409,
    sentence: 'The agent could not go on: {why}.',
    fix: 'bin/einsora doctor',
  },
  machine_starting: {
    status: 409,
    sentence: '{machine} is still looking at what it has.',
    fix: null,
  },
  run_vanished: {
    status: 409,
    sentence: 'Its process is gone and nobody saw it end.',
    fix: 'bin/einsora logs {name}',
  },
  start_failed: {
    status: 409,
    sentence: 'It could not be started: {why}.',
    fix: 'bin/einsora doctor',
  },
  stop_unproven: {
    status: 409,
    sentence: 'It was told to end, but that it did could not be proved: {why}.',
    fix: 'bin/einsora doctor',
  },
  port_unreachable: {
    status: 503,
    sentence: 'Its port {port} cannot be reached: {why}.',
    fix: 'bin/einsora logs {name}',
  },
  driver_not_built: {
    status: 409,
    sentence: 'The driver {driver} is not part of this version.',
    fix: null,
  },
  too_many_restarts: {
    status: 409,
    sentence: 'It ended {count} times in a row, the last time: {last}',
    fix: 'bin/einsora logs {name}, then: bin/einsora start {name}',
  },
  asked_by_user: { status: 200, sentence: 'Asked for by {who}.', fix: null },
} as const satisfies Record<string, Reason>;
