// How a page asks the API. What is refused is thrown as an error that can be shown: its sentence, its
// code, and the command that helps.

export function ask(method, path, body) {
  // A repeat of the browser's own has the effect of one.
  const headers = method === 'POST' ? { 'idempotency-key': crypto.randomUUID() } : {};
  return call(method, path, body, headers);
}

/** Gives what the answer says; null where that is nothing. */
export async function call(method, path, body, more_headers = {}) {
  const headers = { 'content-type': 'application/json', ...more_headers };
  const sent = body === undefined ? {} : { headers, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { method, cache: 'no-store', ...sent });
  } catch {
    const error = new Error('The control plane does not answer. Start it with:');
    throw Object.assign(error, { fix: 'bin/einsora up' });
  }
  const text = await answer.text();
  if (answer.ok) return text === '' ? null : JSON.parse(text);
  const { error } = JSON.parse(text);
  throw Object.assign(new Error(error.message), { code: error.code, fix: error.fix });
}

/** All items of a list that comes in pages; `most` of them at most. */
export async function askAll(path, most = 1000) {
  const items = [];
  let cursor = null;
  do {
    const more = cursor === null ? '' : `${path.includes('?') ? '&' : '?'}cursor=${cursor}`;
    const page = await ask('GET', `${path}${more}`);
    items.push(...page.items);
    cursor = page.next_cursor ?? null;
  } while (cursor !== null && items.length < most);
  return items;
}
