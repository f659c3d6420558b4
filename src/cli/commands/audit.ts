/**
 * The commands about the activity log, and about one request.
 */
import type { Command } from 'commander';
import { parseCount } from '../parse.ts';
import { type Go, json_text } from './go.ts';

const tenant_text = "another tenant's, for operators (id or slug)";

export function addAudit(program: Command, go: Go): void {
  const group = program
    .command('audit')
    .description('the activity log: who did what, and the proof that nobody changed it');
  addReading(group, go);
  addProof(group, go);
  addRequest(program, go);
}

function addRequest(program: Command, go: Go): void {
  const group = program
    .command('request')
    .description('what one request did, and which there were to models');
  group
    .command('show', { isDefault: true })
    .description('what one request did; `show` may be left out')
    .argument('<id>', 'id of the request, as in X-Request-ID or an error')
    .option('--json', json_text)
    .action(
      go(async (context, id: string, options) =>
        (await import('../request.ts')).request(context, id, options),
      ),
    );
  group
    .command('ls')
    .description("your requests to models, newest first; for admins, all of the tenant's")
    .option('--failed', 'only what was refused or cut')
    .option('--key <key>', 'only by this key (its id, or its last four characters)')
    .option('--model <model>', 'only of this model, as it was asked for')
    .option('--tenant <tenant>', tenant_text)
    .option('--limit <count>', 'at most so many', parseCount)
    .option('--json', json_text)
    .action(
      go(async (context, options) =>
        (await import('../request-list.ts')).listRequests(context, options),
      ),
    );
}

function addReading(group: Command, go: Go): void {
  group
    .command('ls')
    .description('what was done, newest first')
    .option('--user <user>', 'only by this user (name or id)')
    .option('--route <name>', 'only this action, such as launch')
    .option('--target <target>', 'only on this, such as workload:<id>')
    .option('--since <moment>', 'from this moment on: 2026-01-31, 2026-01-31T12:00, or 7d ago')
    .option('--until <moment>', 'before this moment')
    .option('--tenant <tenant>', tenant_text)
    .option('--limit <count>', 'at most so many', parseCount)
    .option('--json', json_text)
    .action(
      go(async (context, options) => (await import('../audit.ts')).listActivity(context, options)),
    );
  group
    .command('erase')
    .description('forget who a user was in the log; what was done stays, and the proof holds')
    .argument('<user>', 'name or id')
    .option('--tenant <tenant>', tenant_text)
    .option('--json', json_text)
    .action(
      go(async (context, user: string, options) =>
        (await import('../audit.ts')).eraseUser(context, user, options),
      ),
    );
}

function addProof(group: Command, go: Go): void {
  group
    .command('export')
    .description('the sealed log as JSON lines, with its seals and anchors')
    .option('--from <moment>', 'what was sealed from this moment on')
    .option('--to <moment>', 'what was sealed before this moment')
    .option('--tenant <tenant>', tenant_text)
    .option('-o, --output <file>', 'write to a new file; else to stdout')
    .action(
      go(async (context, options) =>
        (await import('../audit-prove.ts')).exportLog(context, options),
      ),
    );
  group
    .command('verify')
    .description('is the log as it was sealed? Of the control plane, or of an exported file')
    .argument('[file]', 'an exported file, checked without a control plane')
    .option('--key <key>', 'the key that anchors must be signed with, from a place you trust')
    .option('--anchors <file>', 'anchors that you kept elsewhere (activity-anchors.jsonl)')
    .option('--tenant <tenant>', tenant_text)
    .option('--json', json_text)
    .action(
      go(async (context, file: string | undefined, options) =>
        (await import('../audit-prove.ts')).verifyLog(context, file, options),
      ),
    );
}
