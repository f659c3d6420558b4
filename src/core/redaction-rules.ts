/**
 * What redaction takes for a secret: fields by their name, and parts of text by their shape.
 *
 * Invariants: each rule has an id that stands in exports and is never reused; a rule leaves what is
 * `REDACTED` already; patterns are bounded, so that no text takes long.
 */
import { tokenPrefixes } from './token.ts';

export const redacted = 'REDACTED';

export type TextRule = { id: string; apply(text: string): string };

const secretWords =
  'passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential';
const secretName = new RegExp(`(?:^|[_.-])(?:${secretWords}|authorization|cookie)s?$`, 'i');
const camelName =
  /[a-z](?:Password|Passphrase|Secret|Token|ApiKey|AccessKey|PrivateKey|Credential)s?$/;

/** The rule that hides all that stands under a field, or null. */
export function hiddenField(key: string, value: unknown): string | null {
  if (/^(?:env|environ|environment)$/i.test(key)) return 'field.env';
  if (/(?:^|_)(?:hash|salt)$/i.test(key)) return 'field.hash';
  // A number under such a name is a count of tokens, not a token.
  if (typeof value === 'number' || typeof value === 'boolean') return null;
  return secretName.test(key) || camelName.test(key) ? 'field.password' : null;
}

/** What is under a secret's name and is none: numbers, words that switch, other flags. */
const harmless = /^(?:\d{1,9}(?:\.\d+)?|true|false|null|none|undefined|-.*)$/i;

const vendors: [id: string, pattern: RegExp][] = [
  ['vendor.sk-ant', /sk-ant-[\w-]{16,}/g],
  ['vendor.openai', /sk-(?!ant-)[\w-]{20,}/g],
  ['vendor.huggingface', /hf_[A-Za-z0-9]{20,}/g],
  ['vendor.github', /(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,})/g],
  ['vendor.gitlab', /gl(?:pat|dt|rt|ptt)-[\w-]{20,}/g],
  ['vendor.aws', /(?:AKIA|ASIA)[A-Z0-9]{16}/g],
  ['vendor.google', /(?:AIza[\w-]{35}|ya29\.[\w-]{20,})/g],
  ['vendor.slack', /xox[abeoprs]-[A-Za-z0-9-]{10,}/g],
  ['vendor.npm', /npm_[A-Za-z0-9]{36}/g],
  ['vendor.stripe', /[rs]k_(?:live|test)_[A-Za-z0-9]{16,}/g],
  ['vendor.nvidia', /nvapi-[\w-]{20,}/g],
  ['vendor.jwt', /eyJ[\w-]{8,1024}\.eyJ[\w-]{8,8192}\.[\w-]*/g],
];

export const textRules: readonly TextRule[] = [
  replacing(
    'text.private-key',
    /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g,
  ),
  replacing('token.einsora', new RegExp(`(?:${tokenPrefixes.join('|')})[0-9A-Za-z]{30,}`, 'g')),
  ...vendors.map(([id, pattern]) => replacing(id, pattern)),
  keeping('uri.userinfo', /([a-z][a-z0-9+.-]{1,20}:\/\/)([^\s/?#"'<>`]{1,512})(@)/gi),
  keeping('uri.query', /([?&][\w.[\]%-]{1,64}=)([^\s&#"'<>`]+)()/g),
  keeping(
    'uri.fragment',
    /([a-z][a-z0-9+.-]{1,20}:\/\/[^\s#"'<>`]{1,2048}#(?:[\w-]{1,32}=)?)([^\s"'<>`]+)()/gi,
  ),
  keeping(
    'http.authorization',
    /(\bauthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:(?:bearer|basic|token)\s+)?)([^\s"',;]+)()/gi,
  ),
  keeping('http.authorization', /(\b(?:bearer|basic)\s+)([\w.~+/-]*[\d+/_=][\w.~+/-]*={0,2})()/gi),
  keeping(
    'text.assignment',
    new RegExp(`((?:${secretWords})s?["']?\\s{0,8}(?:[:=]|=>)\\s{0,8}["']?)([^\\s"',;&]+)()`, 'gi'),
  ),
  keeping('text.flag', new RegExp(`(--?[\\w-]{0,32}(?:${secretWords})\\s+)([^\\s"']+)()`, 'gi')),
];

/** All that matches is the secret. */
function replacing(id: string, pattern: RegExp): TextRule {
  return { id, apply: (text) => text.replace(pattern, redacted) };
}

/** The second group is the secret; what stands before and after it stays. */
function keeping(id: string, pattern: RegExp): TextRule {
  return {
    id,
    apply: (text) =>
      text.replace(pattern, (all, before: string, secret: string, after: string) =>
        secret === redacted || harmless.test(secret) ? all : `${before}${redacted}${after}`,
      ),
  };
}
