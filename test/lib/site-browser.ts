/**
 * A site rig with a real browser in front of it: a program that stands for a notebook, and one that
 * an attacker wrote.
 *
 * Invariants: each test has a fresh browser context; a name of another's DNS leads here, as if it
 * had been rebound.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type Browser,
  type BrowserContext,
  chromium as browserType,
  type Page,
} from 'playwright-core';
import { type WebSocket, WebSocketServer } from 'ws';
import { systemClock } from '../../src/lib/clock.ts';
import { chromium } from './parts.ts';
import { createSiteRig, type Notebook, type SiteRig, startProgramServer } from './site-rig.ts';

export type SiteBrowser = {
  site: SiteRig;
  browser: Browser;
  /** What the program of a workload was asked: `GET /path`, `WS /path`. */
  asked(notebook: Notebook): string[];
  /** The pages of a workload, by path; what is not there is a plain page. */
  pages: Map<string, string>;
  /** Sockets that are open, by workload. */
  sockets: Map<string, WebSocket[]>;
  /** A context that is signed in at the dashboard; as nobody where `user_id` is null. */
  context(user_id?: string | null): Promise<BrowserContext>;
  /** Opens a workload as its dashboard does; gives the tab. */
  open(context: BrowserContext, notebook: Notebook): Promise<Page>;
  close(): Promise<void>;
};

export async function openSiteBrowser(): Promise<SiteBrowser> {
  const site = await createSiteRig({ clock: systemClock });
  const asked = new Map<string, string[]>();
  const pages = new Map<string, string>();
  const sockets = new Map<string, WebSocket[]>();
  const idOf = (request: IncomingMessage) => (request.headers.host ?? '').slice(2, 28);
  const note = (request: IncomingMessage, method: string) => {
    const list = asked.get(idOf(request)) ?? [];
    list.push(`${method} ${request.url}`);
    asked.set(idOf(request), list);
  };
  const program = await startProgramServer((request, response) => {
    note(request, request.method ?? '');
    servePage(pages, idOf(request), request, response);
  });
  const server = new WebSocketServer({ noServer: true });
  program.server.on('upgrade', (request, socket, head) => {
    note(request, 'WS');
    server.handleUpgrade(request, socket, head, (opened) => {
      opened.on('message', (data) => opened.send(`echo ${data}`));
      sockets.set(idOf(request), [...(sockets.get(idOf(request)) ?? []), opened]);
    });
  });
  site.dial.now = program.dial;
  const browser = await browserType.launch({
    executablePath: chromium,
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
      '--host-resolver-rules=MAP rebound.example 127.0.0.1',
    ],
  });
  return {
    ...{ site, browser, pages, sockets },
    asked: (notebook) => asked.get(notebook.id) ?? [],
    async context(user_id = site.rig.ids.user_id) {
      const context = await browser.newContext();
      if (user_id === null) return context;
      const { cookie } = await site.addSession(user_id);
      const [name = '', value = ''] = cookie.split('=');
      const more = { httpOnly: true, sameSite: 'Strict' } as const;
      await context.addCookies([{ name, value, url: site.origin, ...more }]);
      return context;
    },
    async open(context, notebook) {
      const page = await context.newPage();
      await page.goto(`${site.origin}/open/${notebook.id}`);
      await page.waitForURL(`${notebook.origin}/`);
      return page;
    },
    async close() {
      await browser.close();
      await site.close();
      await program.close();
    },
  };
}

/** A page by the workload's own text, a script where the path says so. */
function servePage(
  pages: Map<string, string>,
  id: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  const text = pages.get(`${id}${path}`) ?? pages.get(path) ?? `<title>site</title>${id}`;
  const type = path.endsWith('.js') ? 'text/javascript' : 'text/html; charset=utf-8';
  response.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' });
  response.end(text);
}
