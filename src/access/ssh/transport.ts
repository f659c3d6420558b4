/**
 * The transport of SSH, by ssh2: packets, key exchange, ciphers. The only file that touches ssh2.
 *
 * Invariants: strong algorithms only; a peer that breaks the protocol ends its connection and
 * nothing else; nothing is read while what we owe the peer piles up, and `isCongested` says when
 * nothing more should be sent. Above it, connection.ts speaks channels: ssh2's own server does not,
 * for the reasons in ADR-0047.
 */
import { sign } from 'node:crypto';
import type { Duplex } from 'node:stream';
import ciphers from 'ssh2/lib/protocol/crypto.js';
import keys from 'ssh2/lib/protocol/keyParser.js';
import Protocol from 'ssh2/lib/protocol/Protocol.js';
import type { AuthorizedKey } from '../../core/ssh-key.ts';
import type { HostKey } from './host-key.ts';

export type OpenInfo = {
  type: string;
  sender: number;
  window: number;
  packetSize: number;
  data: Record<string, unknown>;
};

export type PublicKeyTry = {
  keyAlgo: string;
  key: Buffer;
  /** Of RSA: SHA-2 was asked for by name. */
  hashAlgo?: string;
  signature?: Buffer;
  blob?: Buffer;
};

/** What a client can say, as ssh2 reads it. The first argument is ssh2's own. */
export type MessageHandlers = {
  DISCONNECT(p: unknown, reason: number, description: string): void;
  SERVICE_REQUEST(p: unknown, name: string): void;
  USERAUTH_REQUEST(
    p: unknown,
    user: string,
    service: string,
    method: string | undefined,
    data: unknown,
  ): void;
  GLOBAL_REQUEST(p: unknown, name: string, wants_reply: boolean, data: unknown): void;
  CHANNEL_OPEN(p: unknown, info: OpenInfo): void;
  CHANNEL_DATA(p: unknown, id: number, data: Buffer): void;
  CHANNEL_EXTENDED_DATA(p: unknown, id: number, data: Buffer, type: number): void;
  CHANNEL_WINDOW_ADJUST(p: unknown, id: number, bytes: number): void;
  CHANNEL_EOF(p: unknown, id: number): void;
  CHANNEL_CLOSE(p: unknown, id: number): void;
  CHANNEL_REQUEST(p: unknown, id: number, type: string, wants_reply: boolean, data: unknown): void;
};

export type Sender = Omit<Protocol, 'start' | 'parse' | 'cleanup' | '_kexinit'>;

export type Transport = {
  send: Sender;
  /** Nothing more should be sent for now; `ready` tells when it may. */
  isCongested(): boolean;
  /** Begins. Rejects where the machine's own ciphers do not work. */
  start(): Promise<void>;
  /** Says goodbye, and hears nothing more. */
  stop(reason: number): void;
};

export type TransportOptions = {
  socket: Duplex;
  host_key: HostKey;
  handlers: MessageHandlers;
  /** Anything came from the peer. */
  heard(): void;
  /** Keys were exchanged: the first time, and again. */
  rekeyed(): void;
  /** Sending may go on. */
  ready(): void;
  /** The peer broke the protocol, or the connection its word. Ends it. */
  failed(error: Error): void;
};

/** What we offer. A client picks the first of its own list that is here. */
const offered = {
  kex: ['curve25519-sha256', 'curve25519-sha256@libssh.org'],
  cipher: ['aes128-gcm@openssh.com', 'aes256-gcm@openssh.com', 'chacha20-poly1305@openssh.com'],
  // Named for the negotiation alone: each cipher authenticates by itself.
  mac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com'],
} as const;

/** Answers that may wait unread in the socket before we stop listening. */
const unread_bytes = 1024 * 1024;

export function createTransport(options: TransportOptions): Transport {
  const { socket } = options;
  const protocol = createProtocol(options);
  const heard = (chunk: Buffer) => {
    try {
      protocol.parse(chunk, 0, chunk.length);
    } catch (error) {
      options.failed(error as Error);
    }
    if (socket.writableLength > unread_bytes) socket.pause();
  };
  socket.once('close', () => protocol.cleanup());
  return {
    send: protocol,
    isCongested: () => socket.writableNeedDrain || protocol._kexinit !== undefined,
    async start() {
      await ciphers.init;
      protocol.start();
      socket.on('drain', () => {
        socket.resume();
        options.ready();
      });
      socket.on('data', heard);
    },
    stop(reason) {
      socket.off('data', heard);
      try {
        protocol.disconnect(reason);
      } catch {
        // It cannot be said any more.
      }
      socket.resume();
      socket.end();
    },
  };
}

function createProtocol(options: TransportOptions): Protocol {
  const { socket } = options;
  const side = {
    ...{ cipher: [...offered.cipher], mac: [...offered.mac] },
    ...{ compress: ['none'], lang: [] },
  };
  return new Protocol({
    server: true,
    ident: 'Einsora',
    hostKeys: { 'ssh-ed25519': signer(options.host_key) },
    offer: { kex: [...offered.kex], serverHostKey: ['ssh-ed25519'], cs: side, sc: side },
    onWrite: (data) => {
      if (socket.writable) socket.write(data);
    },
    onError: options.failed,
    onPacket: options.heard,
    onHandshakeComplete: () => {
      options.rekeyed();
      options.ready();
    },
    messageHandlers: options.handlers,
  });
}

/** The shape in which ssh2 takes a key that signs. */
function signer(key: HostKey) {
  return {
    type: 'ssh-ed25519',
    getPublicSSH: () => key.blob,
    sign: (data: Buffer) => sign(null, data, key.private_key),
  };
}

/** Did the holder of this key sign? */
export function isSignedBy(key: AuthorizedKey, tried: PublicKeyTry): boolean {
  const { blob, signature, hashAlgo } = tried;
  if (blob === undefined || signature === undefined) return false;
  const parsed = keys.parseKey(`${key.type} ${Buffer.from(key.blob).toString('base64')}`);
  return !(parsed instanceof Error) && parsed.verify(blob, signature, hashAlgo) === true;
}
