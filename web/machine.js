// The first page: this machine, what can run here, and why not the rest. Everything it shows comes from
// the API and is written as text, never as markup.
const byId = (id) => document.getElementById(id);
const refresh_ms = 3000;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className !== undefined) made.className = className;
  return made;
}

const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

async function ask(path) {
  const answer = await fetch(path);
  if (answer.status === 401) throw new Error('signed-out');
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer.json();
}

function finding(mark, title, message, fix) {
  const item = element('li', undefined, mark);
  item.append(element('strong', title), element('span', message));
  if (fix) item.append(element('code', fix));
  return item;
}

function gpuText({ model, memory_bytes, state }) {
  const size = memory_bytes > 0 ? ` (${gib(memory_bytes)})` : '';
  return `${model}${size}${state === 'ok' ? '' : `: ${state.replace('_', ' ')}`}`;
}

/** That its owner takes it back, and when. */
function reclaimText({ phase, starts_at, stops_at, since, until, why_text }) {
  const time = (at) => new Date(at).toLocaleString();
  const end = until === null ? '' : `, until ${time(until)}`;
  if (phase === 'planned') return `from ${time(starts_at)}${end}`;
  if (phase === 'armed') return `whenever its owner uses it${end}`;
  if (phase === 'grace') return `guests are stopped at ${time(stops_at)}: ${why_text}${end}`;
  return `since ${time(since)}: ${why_text}${end}`;
}

/** What is about to be stopped for its machine's owner. */
function takenText({ reclaim }) {
  if (reclaim === null) return '';
  const minutes = Math.ceil(reclaim.stops_in_ms / 60000);
  return `the machine's owner takes it back: this stops in ${minutes} min`;
}

/** With whom it is shared. Of others' machines nobody is told who else is invited. */
function sharedText({ sharing, invited }) {
  if (sharing === 'private') return 'with nobody';
  const guests = invited === null || invited.length === 0 ? '' : `: ${invited.join(', ')}`;
  if (sharing === 'community')
    return `with everybody here${guests === '' ? '' : `, invited${guests}`}`;
  return `with who is invited${guests}`;
}

function standing(machine) {
  return [
    ['Owner', machine.owner],
    ['Shared', sharedText(machine)],
    ...(machine.drained_at === null
      ? []
      : [['Drained', 'nothing new is placed here; what runs stays']]),
    ...(machine.reclaim === null ? [] : [['Taken back', reclaimText(machine.reclaim)]]),
  ];
}

function heldText({ held, offered }) {
  return `${held.cpu_millis / 1000} of ${offered.cpu_millis / 1000} CPU, ${gib(held.memory_bytes)} of ${gib(offered.memory_bytes)}`;
}

function showFacts(facts) {
  byId('facts').replaceChildren(
    ...facts.flatMap(([name, value]) => [element('dt', name), element('dd', value)]),
  );
}

/** All of them, where there is more than the one above. */
function showMachines(machines) {
  byId('machines').hidden = machines.length < 2;
  byId('machine-rows').replaceChildren(
    ...machines.map((machine) => {
      const line = element('tr');
      const drained = machine.drained_at === null ? '' : ', draining';
      const taken = machine.reclaim?.phase === 'held' ? ', taken back' : '';
      const state = `${machine.online ? 'online' : 'not heard of'}${drained}${taken}`;
      const cells = [machine.name, state, machine.owner, sharedText(machine), heldText(machine)];
      line.append(...cells.map((text) => element('td', text)));
      return line;
    }),
  );
}

function showMachine(machine) {
  byId('machine').hidden = false;
  byId('machine-name').textContent = machine.name;
  const { inventory } = machine;
  if (inventory === null) {
    const looks = machine.is_yours ? [['', 'It is still looking at what it has.']] : [];
    showFacts([...looks, ...standing(machine), ['In use', heldText(machine)]]);
    byId('can').replaceChildren();
    byId('cannot').replaceChildren();
    return;
  }
  const facts = [
    ['System', `${inventory.os} ${inventory.os_version}, ${inventory.arch}`],
    ['Processor', `${inventory.cpu_model}, ${inventory.cpu_count} cores`],
    [
      'Memory',
      `${gib(inventory.memory_bytes)}, of which Einsora may use ${gib(machine.offered.memory_bytes)}`,
    ],
    [
      'In use',
      `${machine.held.cpu_millis / 1000} of ${machine.offered.cpu_millis / 1000} CPU, ${gib(machine.held.memory_bytes)} of memory`,
    ],
    ['GPU', inventory.gpus.length === 0 ? 'none' : inventory.gpus.map(gpuText).join(', ')],
    ...standing(machine),
  ];
  showFacts(facts);
  const can = [];
  const cannot = [];
  for (const driver of inventory.drivers) {
    if (driver.ready) can.push(finding('ok', driver.driver, driver.kinds.join(', ')));
    else {
      const missing = driver.findings.find((entry) => entry.status === 'missing');
      cannot.push(finding('missing', `${driver.driver} driver`, driver.why ?? '', missing?.fix));
    }
  }
  for (const entry of inventory.findings) {
    if (entry.status === 'ok') continue;
    cannot.push(finding(entry.status, entry.check, entry.message, entry.fix));
  }
  if (can.length === 0) can.push(finding('missing', 'nothing yet', 'see below for why'));
  byId('can').replaceChildren(...can);
  byId('cannot').replaceChildren(...cannot);
}

/** What it uses; what nobody measured is left out. */
function useText({ use, fallback_taken, ...asked }) {
  const { memory_bytes } = fallback_taken ?? asked;
  if (use === null) return '';
  const parts = [];
  if (use.cpu_millis !== null) parts.push(`${Math.round(use.cpu_millis / 10)}% CPU`);
  if (use.memory_bytes !== null) parts.push(`${gib(use.memory_bytes)} of ${gib(memory_bytes)}`);
  if (use.gpu_percent !== null) parts.push(`${Math.round(use.gpu_percent)}% GPU`);
  if (use.idle_left_ms !== null && use.busy_with !== 'unmeasured') {
    parts.push(`idle stop in ${Math.ceil(use.idle_left_ms / 60000)} min`);
  }
  return parts.join(', ');
}

function standsInText({ fallback_taken: taken }) {
  if (!taken) return '';
  return `${taken.placed} in place of ${taken.asked} (fallback ${taken.step} of ${taken.of})`;
}

function row(workload) {
  const line = element('tr');
  const place = workload.placement;
  const is_running = workload.state === 'running';
  const uses = [takenText(workload) || useText(workload), standsInText(workload)];
  const use = uses.filter((text) => text !== '').join('; ');
  const why = is_running ? use : (workload.reason?.message ?? '');
  const place_in_queue = workload.queue_place === null ? '' : ` (place ${workload.queue_place})`;
  const several =
    workload.replicas > 1 ? `, ${workload.replicas_ready}/${workload.replicas} ready` : '';
  const state = `${workload.state}${is_running ? several : place_in_queue}`;
  for (const text of [
    workload.name,
    state,
    place?.machine_name ?? '–',
    place?.isolation ?? '–',
    why,
  ]) {
    line.append(element('td', text));
  }
  // The kinds that have a web page of their own.
  if (workload.kind === 'notebook') {
    const link = element('a', 'Open');
    link.href = `/open/${workload.id}`;
    link.target = '_blank';
    link.rel = 'noopener';
    link.setAttribute('aria-label', `Open ${workload.name}`);
    line.firstChild.append(' ', link);
  }
  if (workload.state === 'running') {
    const link = element('a', 'Terminal');
    link.href = `/terminal/${workload.id}`;
    link.target = '_blank';
    link.rel = 'noopener';
    link.setAttribute('aria-label', `Terminal of ${workload.name}`);
    line.firstChild.append(' ', link);
  }
  line.firstChild.title =
    workload.host_sees === null ? '' : `The host can see ${workload.host_sees}`;
  return line;
}

async function show() {
  const [me, machines, workloads] = await Promise.all([
    ask('/v1/me'),
    ask('/v1/machines'),
    ask('/v1/workloads?limit=100'),
  ]);
  byId('who').textContent = `${me.name}, ${me.role}`;
  byId('sign-out').hidden = false;
  byId('notice').hidden = true;
  const first = machines.items.find((machine) => machine.is_yours) ?? machines.items[0];
  if (first) showMachine(first);
  showMachines(machines.items);
  byId('no-machine').hidden = machines.items.length > 0;
  byId('workloads').hidden = false;
  byId('rows').replaceChildren(...workloads.items.map(row));
  byId('table').hidden = workloads.items.length === 0;
  byId('empty').hidden = workloads.items.length > 0;
}

// News come by one live stream; each is only a reason to ask again. Where the stream is not there, the page
// asks by itself. Several pages of one browser each hold a stream of their own.
const gather_ms = 200;
const without_news_ms = 30000;
let stream = null;
let timer = null;
let asking = false;

function askIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(loop, ms);
}

function news() {
  if (!asking) askIn(gather_ms);
  else missed = true;
}
let missed = false;

function listen() {
  if (stream !== null && stream.readyState !== EventSource.CLOSED) return;
  stream = new EventSource('/v1/events');
  for (const type of ['hello', 'reset', 'workload', 'stages', 'machine', 'error']) {
    stream.addEventListener(type, news);
  }
}

function signInLink() {
  const link = element('a', 'sign in by name');
  link.href = '/sign-in';
  return link;
}

byId('sign-out').addEventListener('click', async () => {
  await fetch('/v1/session', { method: 'DELETE' });
  location.assign('/sign-in');
});

/** Nothing of whoever was signed in stays, and nothing is asked until somebody looks again. */
function showSignedOut() {
  stream?.close();
  stream = null;
  for (const id of ['machine', 'machines', 'no-machine', 'workloads', 'sign-out'])
    byId(id).hidden = true;
  byId('who').textContent = '';
  byId('notice').replaceChildren(
    'You are not signed in. Get a one-time link with ',
    element('code', 'bin/einsora open'),
    ', or ',
    signInLink(),
    '.',
  );
}

async function loop() {
  asking = true;
  missed = false;
  try {
    await show();
    listen();
  } catch (error) {
    asking = false;
    byId('notice').hidden = false;
    if (error.message === 'signed-out') {
      showSignedOut();
      document.addEventListener('visibilitychange', loop, { once: true });
      return;
    }
    byId('notice').textContent =
      `The control plane does not answer (${error.message}). Start it with: bin/einsora up`;
  }
  asking = false;
  const is_live = stream !== null && stream.readyState === EventSource.OPEN;
  askIn(missed ? gather_ms : is_live ? without_news_ms : refresh_ms);
}

loop();
