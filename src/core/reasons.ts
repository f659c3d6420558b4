/**
 * The one table of codes: errors, queue reasons, refusals, ends. Each has an HTTP status (what the
 * API answers where it is an error), a sentence, and the command that helps, or null where none
 * does.
 *
 * `{name}` in a sentence or fix is filled from the details. docs/errors.md is made from this table.
 */
export type Reason = { status: number; sentence: string; fix: string | null };

export const reasons = {
  // Requests
  bad_request: { status: 400, sentence: 'The request is not valid: {problem}.', fix: null },
  body_too_large: { status: 413, sentence: 'The body is over {limit}.', fix: null },
  not_found: { status: 404, sentence: 'There is no {what}.', fix: 'bin/einsora ls' },
  method_not_allowed: { status: 405, sentence: 'That method is not allowed here.', fix: null },
  wrong_host: {
    status: 421,
    sentence: 'This server does not answer for the host name it was asked under.',
    fix: 'bin/einsora doctor',
  },
  cross_site: {
    status: 403,
    sentence: 'A write from another site was refused.',
    fix: null,
  },
  sign_in_required: {
    status: 401,
    sentence: 'This needs a signed-in user or an API token.',
    fix: 'bin/einsora up prints a one-time link; the command line signs in by itself with --data-dir',
  },
  sign_in_link_spent: {
    status: 401,
    sentence: 'This one-time link was used or is too old.',
    fix: 'bin/einsora open',
  },
  forbidden: { status: 403, sentence: 'Your role may not do this.', fix: null },
  idempotency_key_reused: {
    status: 409,
    sentence: 'This Idempotency-Key was used for another request.',
    fix: null,
  },
  too_many_requests: { status: 429, sentence: 'Too many requests; wait a moment.', fix: null },
  internal: {
    status: 500,
    sentence: 'Something went wrong here. The log has more under request {request_id}.',
    fix: 'bin/einsora doctor',
  },
  store_full: {
    status: 507,
    sentence: 'The disk of the data folder is full; nothing was changed.',
    fix: 'df -h {data_dir}',
  },
  store_failing: {
    status: 503,
    sentence: 'The store cannot be written; nothing was changed.',
    fix: 'bin/einsora doctor',
  },
  outcome_unknown: {
    status: 503,
    sentence:
      'The disk failed while saving: repeat with the same Idempotency-Key to learn whether it was done.',
    fix: 'bin/einsora doctor',
  },
  shutting_down: { status: 503, sentence: 'The control plane is stopping.', fix: 'bin/einsora up' },

  // Asking for a workload
  name_taken: {
    status: 409,
    sentence: 'A workload named {name} exists already.',
    fix: 'bin/einsora show {name}, or give another --name',
  },
  unknown_model: {
    status: 400,
    sentence: 'There is no model {model} in the catalog, and it is no file here.',
    fix: 'bin/einsora catalog',
  },
  model_source_unsupported: {
    status: 400,
    sentence: 'Models from {scheme} are not supported yet.',
    fix: 'bin/einsora catalog, or give a path to a GGUF file',
  },
  unknown_class: {
    status: 400,
    sentence: 'There is no class {class}.',
    fix: 'bin/einsora catalog',
  },
  not_ready: {
    status: 409,
    sentence: '{name} is {state}, so it cannot answer.',
    fix: 'bin/einsora show {name}',
  },
  already_deleted: { status: 409, sentence: '{name} was deleted.', fix: 'bin/einsora ls' },

  // Why something waits or a machine was not chosen
  no_machine_matches: {
    status: 409,
    sentence: 'No machine here can run this.',
    fix: 'bin/einsora doctor',
  },
  all_matching_busy: {
    status: 409,
    sentence: 'Every machine that could run this is busy.',
    fix: 'bin/einsora ls',
  },
  machine_too_small: {
    status: 409,
    sentence: '{machine} offers {offered}, less than the {asked} asked for.',
    fix: 'ask for a smaller class: bin/einsora catalog',
  },
  machine_busy: {
    status: 409,
    sentence: '{machine} has {free} free of the {asked} asked for; {holders} hold the rest.',
    fix: 'bin/einsora ls',
  },
  machine_offline: {
    status: 409,
    sentence: '{machine} has not been heard of since {since}.',
    fix: 'bin/einsora machines',
  },
  driver_missing: {
    status: 409,
    sentence: '{machine} has no driver for a {kind}.',
    fix: 'bin/einsora doctor',
  },
  driver_not_ready: {
    status: 409,
    sentence: '{machine}: {why}',
    fix: 'bin/einsora doctor',
  },
  accelerator_missing: {
    status: 409,
    sentence: '{machine} has no {accelerator} accelerator.',
    fix: 'bin/einsora doctor',
  },
  isolation_not_allowed: {
    status: 409,
    sentence: '{machine} could only run this with weak isolation, which is for its owner alone.',
    fix: null,
  },
  class_too_small: {
    status: 409,
    sentence: '{class} has {offered} of memory, the model needs about {needed}.',
    fix: 'bin/einsora catalog',
  },

  // What a run may end with
  waiting_for_placement: { status: 409, sentence: 'Not decided yet.', fix: null },
  sandbox_missing: {
    status: 409,
    sentence: 'No sandbox: {why}. Nothing runs without one.',
    fix: 'apt-get install bubblewrap',
  },
  cap_missing: {
    status: 409,
    sentence: 'Memory cannot be capped on this machine: {why}.',
    fix: 'run einsora as root, or in a systemd user session',
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
    fix: 'check who answers for the package registry on this network, then: bin/einsora start {name}',
  },
  download_failed: {
    status: 409,
    sentence: '{what} could not be fetched: {why}.',
    fix: 'check the network, then: bin/einsora start {name}',
  },
  disk_full: {
    status: 507,
    sentence: '{needed} are needed on the disk of {folder}, {free} are free.',
    fix: 'free some space, then: bin/einsora start {name}',
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
  engine_exited: {
    status: 409,
    sentence: 'The engine ended by itself ({how}).',
    fix: 'bin/einsora logs {name}',
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

  // Starting the program
  data_dir_in_use: {
    status: 409,
    sentence: 'Another einsora serves {data_dir} already ({url}).',
    fix: 'use that one, or give this one --data-dir',
  },
  data_dir_newer: {
    status: 409,
    sentence: '{data_dir} was written by a newer Einsora (schema {found}, this one knows {known}).',
    fix: 'git pull, then bin/einsora up',
  },
  data_dir_unwritable: {
    status: 409,
    sentence: '{data_dir} cannot be written: {why}.',
    fix: 'give a folder of your own: bin/einsora up --data-dir ~/einsora-data',
  },
  port_in_use: {
    status: 409,
    sentence: 'Port {port} on {address} is taken by another program.',
    fix: 'bin/einsora up --port {suggestion}',
  },
  control_plane_unreachable: {
    status: 503,
    sentence: 'No control plane answers for {data_dir}.',
    fix: 'bin/einsora up',
  },
} as const satisfies Record<string, Reason>;

export type ReasonCode = keyof typeof reasons;
export type Details = Record<string, string | number | boolean | null>;

/** A code's sentence with its details filled in. Unfilled places stay readable. */
export function sentenceOf(code: ReasonCode, details: Details = {}): string {
  return fill(reasons[code].sentence, details);
}

/** The command that helps, filled in, or null. */
export function fixOf(code: ReasonCode, details: Details = {}): string | null {
  const fix = reasons[code].fix;
  return fix === null ? null : fill(fix, details);
}

export function isReasonCode(text: string): text is ReasonCode {
  return Object.hasOwn(reasons, text);
}

function fill(text: string, details: Details): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = details[name];
    return value === undefined || value === null
      ? name === 'name'
        ? '<name>'
        : 'it'
      : String(value);
  });
}
