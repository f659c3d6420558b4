// A terminal of a workload. What is printed in it is drawn, and reaches nothing of this page: no clipboard, no
// links, no window, and of the title only plain words behind the workload's own name.
const id = location.pathname.split('/')[2];
const base = `/v1/workloads/${id}`;
const protocol = 'einsora.exec.v1';
const window_bytes = 512 * 1024;
const ack_bytes = 64 * 1024;
const piece_bytes = 32 * 1024;
const title_chars = 60;
const resize_ms = 100;

const byId = (name) => document.getElementById(name);
let name = id;
let screen = null;
let line = null;

function tell(text, button) {
  byId('notice').textContent = text;
  byId('connect').hidden = button === undefined;
  if (button !== undefined) byId('connect').textContent = button;
}

/** Of what a program calls its window: words, without what turns or hides text. */
function plain(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '').slice(0, title_chars);
}

function showTitle(text) {
  const said = plain(text);
  document.title = said === '' ? `${name}: terminal` : `${name}: ${said}`;
}

/**
 * The terminal writes style elements, which the policy of this page forbids. What it writes becomes a style
 * sheet that was made by script, which it allows.
 */
function withoutStyleElements() {
  const make = document.createElement.bind(document);
  document.createElement = (tag, options) => {
    if (String(tag).toLowerCase() !== 'style') return make(tag, options);
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const stand_in = make('span');
    stand_in.hidden = true;
    Object.defineProperty(stand_in, 'textContent', {
      get: () => '',
      set: (text) => void sheet.replaceSync(text),
    });
    return stand_in;
  };
}

async function openScreen() {
  withoutStyleElements();
  const [{ Terminal }, { FitAddon }] = await Promise.all([
    import('/assets/xterm.mjs'),
    import('/assets/addon-fit.mjs'),
  ]);
  const terminal = new Terminal({
    cursorBlink: true,
    scrollback: 10000,
    fontSize: 14,
    theme: { background: '#10161c' },
    linkHandler: {
      activate: () => tell('Links from a terminal are not opened: copy the address.'),
    },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(byId('terminal'));
  fit.fit();
  let timer = null;
  new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => fit.fit(), resize_ms);
  }).observe(byId('terminal'));
  terminal.onTitleChange(showTitle);
  const encoder = new TextEncoder();
  terminal.onData((text) => line?.type(encoder.encode(text)));
  terminal.onBinary((text) => line?.type(Uint8Array.from(text, (char) => char.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => line?.resize(cols, rows));
  terminal.attachCustomKeyEventHandler((event) => {
    const copies = event.ctrlKey && event.shiftKey && event.code === 'KeyC';
    if (!copies) return true;
    event.preventDefault();
    if (event.type === 'keydown') navigator.clipboard?.writeText(terminal.getSelection());
    return false;
  });
  return terminal;
}

/** One program, over one WebSocket: contract/exec.ts says what is spoken. */
function openLine(terminal, ended) {
  const address = new URL(`${base}/exec`, location.href);
  address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
  const socket = new WebSocket(address, protocol);
  socket.binaryType = 'arraybuffer';
  let last = null;
  let left = window_bytes;
  let drawn = 0;
  const waiting = [];
  const say = (message) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
  const flush = () => {
    while (waiting.length > 0 && waiting[0].length <= left) {
      const piece = waiting.shift();
      left -= piece.length;
      const frame = new Uint8Array(piece.length + 1);
      frame.set(piece, 1);
      if (socket.readyState === WebSocket.OPEN) socket.send(frame);
    }
  };
  socket.onopen = () => {
    const { cols: columns, rows } = terminal;
    say({ type: 'start', argv: [], terminal: { columns, rows } });
  };
  socket.onmessage = ({ data }) => {
    if (typeof data !== 'string') {
      const bytes = new Uint8Array(data, 1);
      // Only what is drawn is acknowledged, so that a flood waits there and not here.
      terminal.write(bytes, () => {
        drawn += bytes.length;
        if (drawn < ack_bytes) return;
        say({ type: 'ack', bytes: drawn });
        drawn = 0;
      });
      return;
    }
    const message = JSON.parse(data);
    if (message.type === 'started') tell('');
    else if (message.type === 'ack') {
      left += message.bytes;
      flush();
    } else last = message;
  };
  socket.onclose = () => ended(last);
  return {
    type(bytes) {
      for (let from = 0; from < bytes.length; from += piece_bytes) {
        waiting.push(bytes.subarray(from, from + piece_bytes));
      }
      flush();
    },
    resize: (columns, rows) => say({ type: 'resize', columns, rows }),
  };
}

async function whyNot() {
  const answer = await fetch(base).catch(() => null);
  if (answer === null) return 'The control plane does not answer.';
  if (answer.status === 401) return 'You are not signed in: see the first page.';
  const body = await answer.json();
  if (!answer.ok) return body.error.message;
  name = body.name;
  byId('name').textContent = name;
  showTitle('');
  if (body.state !== 'running' && body.park_cause !== 'idle') {
    return `It is ${body.state}: a terminal needs it running.`;
  }
  if (body.state !== 'running') return null;
  // A WebSocket that is refused does not say why; this does, by the same rules.
  const may = await fetch(`${base}/files/facts?path=/`);
  return may.ok ? null : (await may.json()).error.message;
}

async function connect() {
  tell('Connecting…');
  const why = await whyNot();
  if (why !== null) {
    tell(why, 'Try again');
    return;
  }
  screen ??= await openScreen();
  screen.focus();
  line = openLine(screen, async (last) => {
    line = null;
    if (last?.type === 'exit') {
      tell(`The shell ended (${last.code ?? last.signal}).`, 'New shell');
    } else if (last?.type === 'error') {
      tell(last.message, 'Connect again');
    } else {
      const reason = await whyNot();
      tell(reason ?? 'The connection broke off, and the shell with it.', 'Connect again');
    }
    byId('connect').focus();
  });
}

byId('connect').addEventListener('click', connect);
// Whoever was sent here by another site opens nothing without a click.
if (document.body.dataset.auto === 'yes') connect();
else tell('', 'Connect');
