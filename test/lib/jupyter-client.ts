/**
 * A client of JupyterLab over a stream that is given: its HTTP API, and a kernel that runs a cell.
 */
import { request } from 'node:http';
import type { Duplex } from 'node:stream';
import WebSocket from 'ws';

export type Jupyter = {
  call<T>(method: string, path: string, body?: unknown): Promise<{ status: number; body: T }>;
  /** Runs a cell in a new kernel and gives what it printed, or the error. */
  runCell(code: string): Promise<string>;
};

type Message = {
  header: { msg_type: string };
  parent_header: { msg_id?: string };
  content: { text?: string; ename?: string; evalue?: string; execution_state?: string };
};

export function jupyterClient(dial: () => Promise<Duplex>, token: string): Jupyter {
  const headers = { host: 'w-test.localhost', authorization: `token ${token}` };

  const call: Jupyter['call'] = async (method, path, body) => {
    const stream = await dial();
    return new Promise((resolve, reject) => {
      const text = body === undefined ? '' : JSON.stringify(body);
      const asked = request(
        {
          ...{ method, path, createConnection: () => stream },
          headers: { ...headers, connection: 'close', 'content-length': Buffer.byteLength(text) },
        },
        async (response) => {
          let answer = '';
          for await (const chunk of response) answer += chunk;
          const parsed = answer === '' ? null : JSON.parse(answer);
          resolve({ status: response.statusCode ?? 0, body: parsed });
        },
      );
      asked.on('error', reject);
      asked.end(text);
    });
  };

  return {
    call,
    async runCell(code) {
      const made = await call<{ id: string }>('POST', '/api/kernels', {});
      const path = `/api/kernels/${made.body.id}/channels`;
      try {
        return await execute(await dial(), path, headers, code);
      } finally {
        await call('DELETE', `/api/kernels/${made.body.id}`);
      }
    },
  };
}

function execute(
  stream: Duplex,
  path: string,
  headers: Record<string, string>,
  code: string,
): Promise<string> {
  const socket = new WebSocket(`ws://w-test.localhost${path}`, {
    ...{ headers, origin: 'http://w-test.localhost' },
    createConnection: () => stream as never,
  });
  const msg_id = 'cell-1';
  const header = {
    msg_id,
    msg_type: 'execute_request',
    username: '',
    session: 's',
    version: '5.3',
  };
  const content = { code, silent: false, store_history: false, allow_stdin: false };
  return new Promise((resolve, reject) => {
    let printed = '';
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`the channel closed after: ${printed}`)));
    socket.on('open', () => {
      const message = { header, parent_header: {}, metadata: {}, content, channel: 'shell' };
      socket.send(JSON.stringify({ ...message, buffers: [] }));
    });
    socket.on('message', (data) => {
      const { header: of, parent_header, content: said } = JSON.parse(String(data)) as Message;
      if (parent_header.msg_id !== msg_id) return;
      if (of.msg_type === 'stream') printed += said.text ?? '';
      if (of.msg_type === 'error') printed += `${said.ename}: ${said.evalue}`;
      if (of.msg_type !== 'status' || said.execution_state !== 'idle') return;
      resolve(printed);
      socket.removeAllListeners('close');
      socket.close();
    });
  });
}
