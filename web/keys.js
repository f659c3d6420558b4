// The page of keys: which there are, what they open and use; making one, changing its limits, revoking
// it. The list is asked for again now and then, and the keyboard stays where it was.
import { ask, askAll } from '/assets/ask.js';
import { hideMade, showMade } from '/assets/key-made.js';
import { isOver, keyRow, limit_names } from '/assets/key-row.js';

const byId = (id) => document.getElementById(id);
const refresh_ms = 15000;
const day_ms = 24 * 3600_000;
const changers = ['member', 'tenant-admin', 'operator'];
let keys = [];
/** The key that a dialog is about. */
let chosen = null;
let timer = null;

function tell(text, fix, link) {
  byId('notice').replaceChildren(text);
  for (const [tag, more, href] of [fix && ['code', fix], link && ['a', ...link]].filter(Boolean)) {
    const made = Object.assign(document.createElement(tag), { textContent: more });
    if (href) made.href = href;
    byId('notice').append(' ', made);
  }
}

function makeLimitFields(place) {
  for (const [name, , text] of limit_names) {
    const id = `${place.dataset.limits}-${name}`;
    const label = Object.assign(document.createElement('label'), {
      htmlFor: id,
      textContent: text,
    });
    const input = Object.assign(document.createElement('input'), { id, type: 'number', min: 1 });
    Object.assign(input, { inputMode: 'numeric', placeholder: 'no limit' });
    const field = document.createElement('div');
    field.append(label, input);
    place.append(field);
  }
}

function limitsIn(form) {
  const read = ([name]) => [name, byId(`${form}-${name}`).value.trim()];
  return Object.fromEntries(
    limit_names.map(read).map(([name, text]) => [name, text === '' ? null : Number(text)]),
  );
}

function showModels(models) {
  byId('no-models').hidden = models.length > 0;
  const shown = [...byId('models').querySelectorAll('input')].map(({ value }) => value);
  if (shown.join() === models.join()) return;
  const checked = new Set([...byId('models').querySelectorAll(':checked')].map((one) => one.value));
  byId('models').replaceChildren(
    ...models.map((model, at) => {
      const label = document.createElement('label');
      const box = Object.assign(document.createElement('input'), {
        type: 'checkbox',
        value: model,
      });
      box.checked = checked.has(model) || (models.length === 1 && at === 0);
      label.append(box, ` ${model}`);
      return label;
    }),
  );
}

function showKeys(uses, may_change) {
  const now = Date.now();
  const over = keys.filter((key) => isOver(key, now));
  const shown = byId('over').checked ? keys : keys.filter((key) => !over.includes(key));
  const focused = document.activeElement?.id;
  byId('rows').replaceChildren(
    ...shown.map((key) => keyRow(key, { use: uses.get(key.id), now, may_change })),
  );
  if (focused) byId(focused)?.focus();
  byId('list').hidden = false;
  byId('table').hidden = shown.length === 0;
  byId('empty').hidden = keys.length > over.length || shown.length > 0;
  byId('over-line').hidden = over.length === 0;
  byId('over-count').textContent = String(over.length);
}

async function show() {
  const [me, listed, routes, open, uses] = await Promise.all([
    ask('GET', '/v1/me'),
    ask('GET', '/v1/model-keys'),
    askAll('/v1/routes'),
    ask('GET', '/v1/open-models'),
    askAll('/v1/usage/requests?group_by=key&limit=100'),
  ]);
  const may_change = changers.includes(me.role);
  byId('who').textContent = `${me.name}, ${me.role}`;
  keys = listed.items;
  const models = [...routes, ...open.items].map(({ model }) => model);
  showModels(models);
  byId('new').hidden = !may_change || models.length === 0;
  byId('only-looks').hidden = may_change;
  byId('only-looks').textContent = `With your role, ${me.role}, you look at keys and make none.`;
  showKeys(new Map(uses.map((use) => [use.key, use])), may_change);
}

/** Says why nothing is shown; nothing of whoever was signed in stays. */
function showFailure(error) {
  if (error.code !== 'sign_in_required') return tell(error.message, error.fix);
  hideMade();
  for (const id of ['new', 'list', 'no-models', 'only-looks']) byId(id).hidden = true;
  for (const dialog of document.querySelectorAll('dialog')) dialog.close();
  byId('who').textContent = '';
  tell('You are not signed in.', undefined, ['Sign in', '/sign-in?next=/keys']);
}

let was_told = true;
async function refresh() {
  clearTimeout(timer);
  try {
    await show();
    // What a failure or the beginning said is over; what was done stays to be read.
    if (was_told) tell('');
    was_told = false;
  } catch (error) {
    was_told = true;
    showFailure(error);
    if (error.code === 'sign_in_required') return;
  }
  if (!document.hidden) timer = setTimeout(refresh, refresh_ms);
}

/** Does what a form is for, once at a time; says in the form what was refused. */
function onSubmit(name, work) {
  const form = byId(`${name}-form`);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = form.querySelector('[type=submit]');
    button.disabled = true;
    byId(`${name}-error`).textContent = '';
    try {
      await work();
    } catch (error) {
      byId(`${name}-error`).textContent = [error.message, error.fix].filter(Boolean).join(' ');
    }
    button.disabled = false;
  });
}

onSubmit('new', async () => {
  const models = [...byId('models').querySelectorAll(':checked')].map(({ value }) => value);
  if (models.length === 0) throw new Error('Choose at least one model.');
  const limits = Object.entries(limitsIn('new')).filter(([, limit]) => limit !== null);
  const days = byId('new-expires').value;
  const made = await ask('POST', '/v1/model-keys', {
    models,
    ...(days === '' ? {} : { expires_in_ms: Number(days) * day_ms }),
    ...(limits.length === 0 ? {} : { limits: Object.fromEntries(limits) }),
  });
  byId('new-form').reset();
  byId('new').open = false;
  tell('');
  showMade(made);
  await refresh();
});

onSubmit('limits', async () => {
  await ask('PUT', `/v1/model-keys/${chosen.id}/limits`, limitsIn('set'));
  byId('limits-dialog').close();
  tell(`The limits of …${chosen.last_four} hold from its next request on.`);
  await refresh();
});

onSubmit('revoke', async () => {
  await ask('DELETE', `/v1/model-keys/${chosen.id}`);
  byId('revoke-dialog').close();
  tell(`The key …${chosen.last_four} opens nothing any more.`);
  await refresh();
  byId('notice').focus();
});

byId('rows').addEventListener('click', ({ target }) => {
  const { action, id } = target.dataset;
  if (!action) return;
  chosen = keys.find((key) => key.id === id);
  byId(`${action}-error`).textContent = '';
  const what = action === 'limits' ? 'Limits of' : 'Revoke';
  byId(`${action}-title`).textContent =
    `${what} …${chosen.last_four}, for ${chosen.models.join(', ')}`;
  for (const [name] of limit_names) byId(`set-${name}`).value = chosen.limits[name] ?? '';
  byId(`${action}-dialog`).showModal();
});
for (const button of document.querySelectorAll('[data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close());
}
for (const place of document.querySelectorAll('[data-limits]')) makeLimitFields(place);
byId('made-done').addEventListener('click', () => {
  hideMade();
  byId('notice').focus();
});
byId('over').addEventListener('change', refresh);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) refresh();
});
refresh();
