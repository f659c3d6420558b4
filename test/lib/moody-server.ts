/**
 * A `llama-server` for the PATH that is well or fails at every question, as a file beside it says:
 * what becomes of a lost device, which says by its health that nothing is wrong.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type Mood = 'well' | 'failing';

/** Makes the folder, with the program in it; the function changes its mood at once. */
export function moodyServer(bin: string, mood: Mood): (mood: Mood) => void {
  mkdirSync(bin, { recursive: true });
  const become = (now: Mood) => writeFileSync(join(bin, 'mood'), now);
  become(mood);
  const program = join(bin, 'llama-server');
  writeFileSync(program, server);
  chmodSync(program, 0o755);
  return become;
}

/** What it says when it is asked for its help is what makes it an engine that can be used. */
const server = `#!/usr/bin/python3
import json, os, socketserver, sys
from http.server import BaseHTTPRequestHandler

if '--help' in sys.argv:
    print('--host HOST  address, or a path that ends in .sock\\n--metrics')
    sys.exit(0)
if '--version' in sys.argv:
    print('version: 1 (moody)')
    sys.exit(0)
here = os.path.dirname(os.path.realpath(__file__))

class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def address_string(self):
        return 'socket'

    def log_message(self, *_):
        pass

    def say(self, status, text, kind='application/json'):
        body = text.encode()
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        # Its count rises by what failed, so that it looks busy.
        Handler.steps += 1
        metrics = f'llamacpp:n_decode_total {Handler.steps}\\nllamacpp:requests_deferred 0\\n'
        self.say(200, metrics if self.path == '/metrics' else '{"status":"ok"}')

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if self.path == '/v1/embeddings':
            return self.say(501, '{"error":{"code":501,"message":"not an embedder"}}')
        if open(os.path.join(here, 'mood')).read() == 'failing':
            return self.say(500, '{"error":{"code":500,"message":"the device is lost"}}')
        usage = {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}
        head = {'id': 'one', 'created': 1, 'model': asked.get('model'), 'usage': usage}
        if not asked.get('stream'):
            choice = {'index': 0, 'text': 'well', 'finish_reason': 'stop'}
            return self.say(200, json.dumps({**head, 'choices': [choice]}))
        choice = {'index': 0, 'delta': {'content': 'well'}, 'finish_reason': 'stop'}
        chunk = {**head, 'object': 'chat.completion.chunk', 'choices': [choice]}
        self.say(200, f'data: {json.dumps(chunk)}\\n\\ndata: [DONE]\\n\\n', 'text/event-stream')

Handler.steps = 0

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

Server(sys.argv[sys.argv.index('--host') + 1], Handler).serve_forever()
`;
