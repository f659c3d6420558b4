// A key that was just made: shown once, with lines that work by copy and paste.
const byId = (id) => document.getElementById(id);
const said_ms = 2000;

/** One word of a POSIX shell. */
const shellWord = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curlFor({ key, base_url, models: [model] }) {
  const body = { model, messages: [{ role: 'user', content: 'Say hello.' }] };
  return [
    `curl ${shellWord(`${base_url}/chat/completions`)}`,
    `  -H ${shellWord(`Authorization: Bearer ${key}`)}`,
    `  -H 'Content-Type: application/json'`,
    `  -d ${shellWord(JSON.stringify(body))}`,
  ].join(' \\\n');
}

export function pythonFor({ key, base_url, models: [model] }) {
  const text = (value) => JSON.stringify(value);
  return [
    'from openai import OpenAI',
    '',
    'client = OpenAI(',
    `    base_url=${text(base_url)},`,
    `    api_key=${text(key)},`,
    ')',
    'answer = client.chat.completions.create(',
    `    model=${text(model)},`,
    '    messages=[{"role": "user", "content": "Say hello."}],',
    ')',
    'print(answer.choices[0].message.content)',
  ].join('\n');
}

export function showMade(made) {
  byId('made-key').value = made.key;
  byId('made-curl').value = curlFor(made);
  byId('made-python').value = pythonFor(made);
  byId('made').hidden = false;
  byId('made-title').focus();
}

export function hideMade() {
  for (const id of ['made-key', 'made-curl', 'made-python']) byId(id).value = '';
  byId('made').hidden = true;
}

/** Where a browser does not let a page copy, the text is selected for a person to copy. */
async function copy(button) {
  const from = byId(button.dataset.copy);
  const text = button.textContent;
  try {
    await navigator.clipboard.writeText(from.value);
    button.textContent = 'Copied';
  } catch {
    from.select();
    button.textContent = 'Selected: copy it';
  }
  setTimeout(() => {
    button.textContent = text;
  }, said_ms);
}

for (const button of document.querySelectorAll('[data-copy]')) {
  button.addEventListener('click', () => copy(button));
}
