// Opens the web page of a workload: asks for a one-time link and goes there. By itself only where the
// server said so (somebody typed the address, or came from a page of ours); else by a click, so that no
// other site can open anything by a link. Waits for a workload that does not run yet.
const byId = (id) => document.getElementById(id);
const path = location.pathname;
const id = path.slice('/open/'.length);
const look_ms = 2000;

function say(text, fix) {
  byId('notice').replaceChildren(text);
  if (!fix) return;
  const code = document.createElement('code');
  code.textContent = fix;
  byId('notice').append(' ', code);
}

async function ask(method, path) {
  const answer = await fetch(path, { method, cache: 'no-store' });
  const body = await answer.json();
  if (answer.ok) return body;
  throw Object.assign(new Error(body.error.message), body.error);
}

/** Whether it can be opened by waiting: what a person stopped waits for a person. */
const comes_by_itself = ['pending', 'queued', 'provisioning', 'running', 'stopping'];

function showState({ name, state, reason, queue_place }) {
  byId('title').textContent = name;
  document.title = `Einsora: open ${name}`;
  const place = queue_place === null ? '' : ` (place ${queue_place})`;
  const why = reason === null || state === 'running' ? '' : ` ${reason.message}`;
  say(`${name} is ${state}${place}.${why}`, reason?.fix);
  byId('start').hidden = !['stopped', 'failed'].includes(state);
}

async function open() {
  byId('open').hidden = true;
  say('Opening…');
  try {
    const { url } = await ask('POST', `/v1/workloads/${id}/access`);
    // Back, from where this leads, must not open it once more.
    history.replaceState({ opened: id }, '');
    location.replace(url);
  } catch (error) {
    await notOpened(error);
  }
}

async function notOpened(error) {
  if (error.code === 'sign_in_required') return location.replace(`/sign-in?next=${path}`);
  if (error.code !== 'not_ready' && error.code !== 'idle_waking') {
    if (error.code === undefined)
      return say('The control plane does not answer. Start it with:', 'bin/einsora up');
    return say(error.message, error.fix);
  }
  await watch();
}

/** Looks until it runs, then opens it: that is what it was asked for. */
async function watch() {
  try {
    const workload = await ask('GET', `/v1/workloads/${id}`);
    showState(workload);
    if (workload.state === 'running') return open();
    if (comes_by_itself.includes(workload.state)) setTimeout(watch, look_ms);
  } catch (error) {
    await notOpened(error);
  }
}

byId('open').addEventListener('click', open);
byId('start').addEventListener('click', async () => {
  byId('start').hidden = true;
  say('Starting…');
  try {
    await ask('POST', `/v1/workloads/${id}/start`);
    await watch();
  } catch (error) {
    await notOpened(error);
  }
});

if (document.body.dataset.auto === 'yes' && history.state?.opened !== id) open();
else byId('open').hidden = false;
