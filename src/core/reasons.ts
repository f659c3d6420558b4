/**
 * The one table of codes: errors, queue reasons, refusals, ends. Each has an HTTP status (what the
 * API answers where it is an error), a sentence, and the command that helps, or null where none
 * does.
 *
 * `{name}` in a sentence or fix is filled from the details. docs/errors.md is made from this table.
 */
import { accessReasons } from './reasons/access.ts';
import { accountReasons } from './reasons/accounts.ts';
import { containerReasons } from './reasons/containers.ts';
import { deviceReasons } from './reasons/devices.ts';
import { fallbackReasons } from './reasons/fallback.ts';
import { guardReasons } from './reasons/guard.ts';
import { idleReasons } from './reasons/idle.ts';
import { machineReasons } from './reasons/machines.ts';
import { modelReasons } from './reasons/models.ts';
import { placementReasons } from './reasons/placement.ts';
import { reclaimReasons } from './reasons/reclaim.ts';
import { replicaReasons } from './reasons/replicas.ts';
import { runReasons } from './reasons/runs.ts';
import { secretReasons } from './reasons/secrets.ts';
import { sharingReasons } from './reasons/sharing.ts';
import { startReasons } from './reasons/start.ts';
import { usageReasons } from './reasons/usage.ts';

export type Reason = { status: number; sentence: string; fix: string | null };

export const reasons = {
  // Requests
  bad_request: { status: 400, sentence: 'The request is not valid: {problem}.', fix: null },
  body_too_large: { status: 413, sentence: 'The body is over {limit}.', fix: null },
  /** `list`: the command that lists what there is of that; the workloads where it is left out. */
  not_found: { status: 404, sentence: 'There is no {what}.', fix: 'bin/einsora {list}' },
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
    fix: 'bin/einsora login, or in a browser: bin/einsora open',
  },
  sign_in_link_spent: {
    status: 401,
    sentence: 'This one-time link was used or is too old.',
    fix: 'bin/einsora open',
  },
  forbidden: {
    status: 403,
    sentence: 'This needs the role {role}; yours is {yours}.',
    fix: 'bin/einsora users set-role <name> {role}, run by one who has it',
  },
  idempotency_key_reused: {
    status: 409,
    sentence: 'This Idempotency-Key was used for another request.',
    fix: null,
  },
  too_many_requests: { status: 429, sentence: 'Too many requests; wait a moment.', fix: null },
  too_many_streams: {
    status: 429,
    sentence: 'Too many live streams are open; one user may have {limit}.',
    fix: null,
  },
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
      'The store failed while saving: repeat with the same Idempotency-Key to learn whether it was done.',
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
    sentence: 'Models are not fetched by {scheme}.',
    fix: 'bin/einsora catalog, or give hf://owner/repo, https://… or a path to a GGUF file',
  },
  unknown_class: {
    status: 400,
    sentence: 'There is no class {class}.',
    fix: 'bin/einsora catalog',
  },
  unknown_image: {
    status: 400,
    sentence:
      "There is no image {image} in the catalog, and it is no registry's reference (one has a slash or a tag).",
    fix: 'bin/einsora catalog',
  },
  image_not_for_kind: {
    status: 400,
    sentence: 'The image {image} is for {kinds}, not for {kind}s.',
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
    sentence: 'No machine here can run this{counts}.',
    fix: 'bin/einsora machines, or the same launch with --plan',
  },
  no_machine_shared: {
    status: 409,
    sentence: 'Your tenant has no machine here, and none is shared with it.',
    fix: 'bin/einsora machines',
  },
  all_matching_busy: {
    status: 409,
    sentence: 'Every machine that could run this is busy{counts}.',
    fix: 'bin/einsora ls',
  },
  all_matching_offline: {
    status: 409,
    sentence: 'Every machine that could run this is offline{counts}.',
    fix: 'bin/einsora machines',
  },
  machine_busy: {
    status: 409,
    sentence:
      '{machine} has {free} free, and {asked} are asked for; the rest is held by {holders}.',
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
  image_form_missing: {
    status: 409,
    sentence: '{machine} cannot run the image {image}: that needs {needs}.',
    fix: 'bin/einsora doctor',
  },
  isolation_not_allowed: {
    status: 409,
    sentence:
      '{machine} could only run this by {drivers}, with weak isolation, which is for its owner alone.',
    fix: null,
  },
  class_too_small_for: {
    status: 409,
    sentence: '{class} has {offered}, less than the {needed} asked for.',
    fix: 'bin/einsora catalog',
  },
  class_too_small: {
    status: 409,
    sentence: '{class} has {offered} of memory, the model needs about {needed}.',
    fix: 'bin/einsora catalog',
  },

  // In files of their own, by area
  ...accessReasons,
  ...accountReasons,
  ...containerReasons,
  ...deviceReasons,
  ...fallbackReasons,
  ...guardReasons,
  ...idleReasons,
  ...machineReasons,
  ...modelReasons,
  ...placementReasons,
  ...replicaReasons,
  ...reclaimReasons,
  ...runReasons,
  ...secretReasons,
  ...sharingReasons,
  ...startReasons,
  ...usageReasons,
} as const satisfies Record<string, Reason>;

export type ReasonCode = keyof typeof reasons;
export type Details = Record<string, string | number | boolean | null>;

/** A code's sentence with its details filled in. Unfilled places stay readable. */
export function sentenceOf(code: ReasonCode, details: Details = {}): string {
  // A detail may be a sentence itself, with its own full stop.
  return fill(reasons[code].sentence, details).replace(/(?<=[^.])\.\.$/, '.');
}

/** The command that helps, filled in, or null. */
export function fixOf(code: ReasonCode, details: Details = {}): string | null {
  const fix = reasons[code].fix;
  return fix === null ? null : fill(fix, details);
}

export function isReasonCode(text: string): text is ReasonCode {
  return Object.hasOwn(reasons, text);
}

/** What stands where a detail is left out. */
const left_out: Record<string, string> = { name: '<name>', role: '<role>', list: 'ls', counts: '' };

/** The command that does it again: of a workload its start, unless another is told. */
function againOf(details: Details): string {
  const { again, name } = details;
  return String(again ?? (name ? `bin/einsora start ${name}` : 'try again'));
}

function fill(text: string, details: Details): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'again') return againOf(details);
    const value = details[name];
    return value === undefined || value === null ? (left_out[name] ?? 'it') : String(value);
  });
}
