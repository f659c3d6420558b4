/**
 * A registry of images on loopback that serves one image, and breaks it the ways that networks do.
 *
 * Invariants: the image's layer is random, so that no engine has it already; everything it opened
 * is closed with it. Engines take plain HTTP from loopback without being told to.
 */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type RegistryMode =
  | 'ok'
  | 'denied'
  /** Only for `me` with the password `open`. */
  | 'private'
  /** Another byte than its digest says. */
  | 'corrupt'
  /** The connection breaks in the middle of the layer. */
  | 'cut'
  /** The layer stops arriving, and nothing else happens. */
  | 'stall';

export type ImageRegistry = {
  /** `127.0.0.1:<port>/einsora/<name>:1` */
  reference: string;
  digest: string;
  mode: RegistryMode;
  /** How often a client began to fetch the layer. */
  layers_asked: number;
  [Symbol.asyncDispose](): Promise<void>;
};

const manifest_type = 'application/vnd.docker.distribution.manifest.v2+json';

export async function imageRegistry(layer_bytes = 2 * 1024 * 1024): Promise<ImageRegistry> {
  const image = makeImage(layer_bytes);
  const server = createServer((request, response) => answer(registry, image, request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const registry: ImageRegistry = {
    reference: `127.0.0.1:${port}/einsora/test:1`,
    digest: image.manifest.digest,
    mode: 'ok',
    layers_asked: 0,
    [Symbol.asyncDispose]: () => close(server),
  };
  return registry;
}

type Blob = { bytes: Buffer; digest: string };
type Image = { manifest: Blob; config: Blob; layer: Blob };

/** One folder entry and one file of random bytes, as a tar that is not compressed. */
function makeImage(layer_bytes: number): Image {
  const layer = blob(
    Buffer.concat([tarHeader('random', layer_bytes), randomBytes(layer_bytes), Buffer.alloc(1024)]),
  );
  const config = blob(
    JSON.stringify({
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config: { Cmd: ['/random'] },
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
      history: [],
    }),
  );
  const part = (mediaType: string, { bytes, digest }: Blob) => ({
    mediaType,
    size: bytes.length,
    digest,
  });
  const manifest = blob(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: manifest_type,
      config: part('application/vnd.docker.container.image.v1+json', config),
      layers: [part('application/vnd.docker.image.rootfs.diff.tar', layer)],
    }),
  );
  return { manifest, config, layer };
}

function answer(
  registry: ImageRegistry,
  { manifest, config, layer }: Image,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const [, kind = '', name = ''] = /\/(manifests|blobs)\/(.+)$/.exec(request.url ?? '') ?? [];
  const signed_in = `Basic ${Buffer.from('me:open').toString('base64')}`;
  if (registry.mode === 'private' && request.headers.authorization !== signed_in) {
    response.setHeader('www-authenticate', 'Basic realm="einsora"');
    refuse(response, 401, 'UNAUTHORIZED', 'authentication required');
  } else if (request.url === '/v2/') {
    response.end('{}');
  } else if (kind === 'manifests' && registry.mode === 'denied') {
    refuse(response, 401, 'UNAUTHORIZED', 'authentication required');
  } else if (kind === 'manifests' && (name === '1' || name === manifest.digest)) {
    const headers = { 'content-type': manifest_type, 'docker-content-digest': manifest.digest };
    response.writeHead(200, { ...headers, 'content-length': manifest.bytes.length });
    response.end(request.method === 'HEAD' ? undefined : manifest.bytes);
  } else if (kind === 'manifests') {
    refuse(response, 404, 'MANIFEST_UNKNOWN', 'manifest unknown');
  } else if (name === config.digest) {
    response.end(config.bytes);
  } else if (name === layer.digest) {
    registry.layers_asked += 1;
    sendLayer(registry.mode, layer.bytes, response);
  } else {
    response.writeHead(404).end();
  }
}

function sendLayer(mode: RegistryMode, bytes: Buffer, response: ServerResponse): void {
  response.writeHead(200, { 'content-length': bytes.length });
  if (mode === 'corrupt') {
    const broken = Buffer.from(bytes);
    broken[1000] = (broken[1000] ?? 0) ^ 1;
    response.end(broken);
  } else if (mode === 'cut') {
    response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy());
  } else if (mode === 'stall') {
    response.write(bytes.subarray(0, bytes.length / 2));
  } else {
    response.end(bytes);
  }
}

function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ errors: [{ code, message }] }));
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

function blob(content: Buffer | string): Blob {
  const bytes = Buffer.from(content);
  return { bytes, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` };
}

function tarHeader(name: string, size: number): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write('0000755\0', 100);
  header.write('0000000\0'.repeat(2), 108);
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write('0', 156);
  header.write('ustar\x0000', 257, 'latin1');
  header.fill(' ', 148, 156);
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}
