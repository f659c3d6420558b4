/**
 * Codes of the sites of workloads: a part of the one table in ../reasons.ts.
 */
import type { Reason } from '../reasons.ts';

export const accessReasons = {
  no_site: {
    status: 409,
    sentence: '{name} has no web page: {kind} workloads have none.',
    fix: 'bin/einsora show {name}',
  },
  no_shell: {
    status: 409,
    sentence: '{name} has no shell and no files to see: {kind} workloads only answer requests.',
    fix: 'bin/einsora show {name}',
  },
  ssh_host_key_exposed: {
    status: 409,
    sentence: '{path} can be read by others on this machine, or is no file.',
    fix: 'chmod 600 {path}',
  },
  ssh_host_key_unreadable: {
    status: 409,
    sentence: '{path} holds no key that SSH clients could know this deployment by.',
    fix: 'rm {path}',
  },
  access_ticket_spent: {
    status: 401,
    sentence: 'This one-time link was used, is too old, or is of another page.',
    fix: 'bin/einsora open <workload>',
  },
  access_needed: {
    status: 401,
    sentence: 'This page opens from Einsora only, for whoever is signed in there.',
    fix: 'bin/einsora open <workload>',
  },
  site_run_ended: {
    status: 503,
    sentence: '{name} was stopped or begun anew since this page was opened.',
    fix: 'bin/einsora open {name}',
  },
  site_not_ready: {
    status: 503,
    sentence: '{name} is {state}, so its page is not there.',
    fix: 'bin/einsora show {name}',
  },
  site_machine_unreachable: {
    status: 502,
    sentence: 'The machine of {name} cannot be reached.',
    fix: 'bin/einsora machines',
  },
  site_program_unreachable: {
    status: 502,
    sentence: 'The program of {name} does not answer: {why}.',
    fix: 'bin/einsora logs {name}',
  },
} as const satisfies Record<string, Reason>;
