// One key in the list: what it opens, its limits, its use, and what can be done with it. Everything is
// written as text, never as markup.
const day_ms = 24 * 3600_000;
const units = [
  ['day', day_ms],
  ['hour', 3600_000],
  ['minute', 60_000],
];
export const limit_names = [
  ['rpm', 'requests', 'Requests in any minute'],
  ['tpm', 'tokens', 'Tokens in any minute'],
  ['concurrency', 'at a time', 'Requests at a time'],
];
const number = new Intl.NumberFormat('en');
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** "in 3 days", "2 hours ago". */
function when(at, now) {
  const [unit, ms] = units.find(([, length]) => Math.abs(at - now) >= length) ?? ['second', 1000];
  return unit === 'second' ? 'just now' : relative.format(Math.round((at - now) / ms), unit);
}

export const isOver = ({ revoked_at, expires_at }, now) =>
  revoked_at !== null || (expires_at !== null && expires_at <= now);

function endText({ revoked_at, expires_at }, now) {
  if (revoked_at !== null) return `revoked ${when(revoked_at, now)}`;
  if (expires_at === null) return 'when revoked';
  return expires_at <= now ? `expired ${when(expires_at, now)}` : when(expires_at, now);
}

function limitsText({ limits, use }) {
  const used = { rpm: use.requests, tpm: use.tokens, concurrency: use.concurrency };
  const parts = limit_names
    .filter(([name]) => limits[name] !== null)
    .map(([name, of]) => `${number.format(used[name])} of ${number.format(limits[name])} ${of}`);
  return parts.length === 0 ? 'no limits' : parts.join(', ');
}

function useText(use) {
  if (use === undefined) return '–';
  const tokens = use.prompt_tokens + use.completion_tokens;
  const requests = `${number.format(use.requests)} ${use.requests === 1 ? 'request' : 'requests'}`;
  return `${requests}, ${number.format(tokens)} tokens`;
}

function actionButton(key, action, text, label) {
  const button = document.createElement('button');
  Object.assign(button, { type: 'button', className: 'small', textContent: text });
  Object.assign(button, { id: `${action}-${key.id}` });
  Object.assign(button.dataset, { action, id: key.id });
  button.setAttribute('aria-label', `${label} key …${key.last_four}`);
  return button;
}

/** `use`: of the last 30 days; left out where there is none, or it is another's. */
export function keyRow(key, { use, now, may_change }) {
  const line = document.createElement('tr');
  const over = isOver(key, now);
  if (over) line.className = 'soft';
  const used = key.last_used_at === null ? '–' : when(key.last_used_at, now);
  const cells = [key.models.join(', '), limitsText(key), endText(key, now), used, useText(use)];
  const name = document.createElement('th');
  name.scope = 'row';
  name.textContent = `…${key.last_four}`;
  line.append(name);
  for (const text of cells) {
    const cell = document.createElement('td');
    cell.textContent = text;
    line.append(cell);
  }
  const actions = document.createElement('td');
  if (may_change && !over) {
    const limits = actionButton(key, 'limits', 'Limits', 'Limits of');
    actions.append(limits, ' ', actionButton(key, 'revoke', 'Revoke', 'Revoke'));
  }
  line.append(actions);
  return line;
}
