/**
 * The pages that a site's host shows by itself: the one that spends a ticket, the one that waits
 * for a workload, the one that says where access comes from, and the one that names the hop which
 * failed.
 *
 * Invariants: each has one style and at most one script, both named by their hash in its policy,
 * which allows nothing else; what comes from outside stands in it as text; nothing in it is secret.
 */
import { createHash } from 'node:crypto';

export type Page = { html: Buffer; policy: string };

/** Where a request goes along, in order. */
export const hops = ['you', 'Einsora', 'machine', 'program'] as const;
export type Hop = (typeof hops)[number];

const style = `
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:38rem;margin:12vh auto;padding:0 1.25rem}
h1{font-size:1.35rem}ol{display:flex;flex-wrap:wrap;gap:.5rem 1.25rem;list-style:none;padding:0}
code{background:#8882;padding:.15em .4em;border-radius:4px}.bad{color:#c22;font-weight:600}
.soft{opacity:.7}a.button,button{font:inherit;padding:.4em 1em}
@media (prefers-color-scheme:dark){.bad{color:#f77}}`;

/**
 * Takes the ticket out of the address before anything else, and spends it by a write of the same
 * origin. A service worker of the site may see it: it opens nothing but this site.
 */
const open_script = `
const ticket = new URLSearchParams(location.hash.slice(1)).get('t');
history.replaceState(null, '', '/.einsora/open');
const say = (text) => { document.getElementById('say').textContent = text; };
const fail = (text) => { say(text); document.getElementById('again').hidden = false; };
if (ticket === null) fail('This link is not whole.');
else fetch('/.einsora/open', {
  method: 'POST', cache: 'no-store', redirect: 'error',
  headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ticket }),
}).then(async (answer) => {
  if (answer.ok) location.replace('/');
  else fail((await answer.json()).error.message);
}).catch(() => fail('The control plane does not answer.'));`;

/** Asks how the workload is, and comes back when it runs. */
const wait_script = `
const say = (text) => { document.getElementById('say').textContent = text; };
const later = () => setTimeout(look, 1000);
async function look() {
  try {
    const answer = await fetch('/.einsora/state', { cache: 'no-store' });
    if (answer.status === 401) return location.reload();
    const state = await answer.json();
    say(state.message);
    if (state.is_ready) {
      const again = await fetch('/.einsora/again', { method: 'POST' });
      if (again.ok) return location.reload();
    }
  } catch { say('The control plane does not answer.'); }
  later();
}
later();`;

const style_source = sourceOf(style);
const open_source = sourceOf(open_script);
const wait_source = sourceOf(wait_script);

/** The page of a one-time link. `again` is where another one is made. */
export function openPage(again: string): Page {
  const body = `<h1>Opening…</h1><p id="say" role="status"></p>
<p><a id="again" class="button" href="${escaped(again)}" hidden>Open it once more</a></p>`;
  return page('Opening…', body, { text: open_script, source: open_source });
}

/** It is there, but does not run now, or not as it did when the page was opened. */
export function waitPage(name: string, message: string, home: string): Page {
  const body = `<h1>${escaped(name)}</h1><p id="say" role="status">${escaped(message)}</p>
<p class="soft">This page comes back by itself when it runs.</p>
<p><a href="${escaped(home)}">Einsora</a></p>`;
  return page(name, body, { text: wait_script, source: wait_source });
}

/** Whoever comes here without access goes by Einsora; never sent on without a click (ADR-0044). */
export function neededPage(again: string): Page {
  const body = `<h1>This page opens from Einsora</h1>
<p>You came here by a link or an old tab; whether you may open it is known there.</p>
<p><a class="button" href="${escaped(again)}">Open it from Einsora</a></p>`;
  return page('Open it from Einsora', body, null);
}

/** What failed, at which hop of the way, and the command that helps. */
export function failedPage(hop: Hop, message: string, fix: string | null, id: string): Page {
  const at = hops.indexOf(hop);
  const items = hops.map((one, index) => {
    if (index < at) return `<li>✓ ${one}</li>`;
    return index === at ? `<li class="bad">✗ ${one}</li>` : `<li class="soft">– ${one}</li>`;
  });
  const help = fix === null ? '' : `<p><code>${escaped(fix)}</code></p>`;
  const way = `<ol aria-label="The way of this request">${items.join('')}</ol>`;
  const body = `<h1>${escaped(message)}</h1>${way}
${help}<p><a href="">Try again</a></p><p class="soft">Request ${escaped(id)}</p>`;
  return page(message, body, null);
}

function page(title: string, body: string, script: { text: string; source: string } | null): Page {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>${style}</style></head><body><main>${body}</main>
${script === null ? '' : `<script>${script.text}</script>`}</body></html>
`;
  const policy = [
    "default-src 'none'",
    `style-src ${style_source}`,
    ...(script === null ? [] : [`script-src ${script.source}`, "connect-src 'self'"]),
    ...['img-src data:', "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ];
  return { html: Buffer.from(html), policy: policy.join('; ') };
}

function sourceOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
