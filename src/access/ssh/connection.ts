/**
 * One SSH connection: who signs in, which channels are open, and when it ends.
 *
 * Invariants: nothing but signing in happens before it is done, and it must be done in time; a
 * client that breaks the protocol or its limits ends its own connection; each channel that is asked
 * for is answered; the end of the connection is the end of all its channels.
 */
import type { Duplex } from 'node:stream';
import { limits } from '../../contract/limits.ts';
import type { AuthorizedKey } from '../../core/ssh-key.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Channel, packet_bytes, SshChannel, window_bytes } from './channel.ts';
import type { HostKey } from './host-key.ts';
import { createSignIn, type SignIn } from './sign-in.ts';
import {
  createTransport,
  type MessageHandlers,
  type OpenInfo,
  type Transport,
} from './transport.ts';
import { createWatch, type Watch } from './watch.ts';

/** What serves one session channel: says of each request whether it is granted. */
export type Session = { request(type: string, data: unknown): boolean };

export type ConnectionOptions = {
  socket: Duplex;
  host_key: HostKey;
  /** One of these must sign; null: the tunnel already proved who it is. */
  keys: AuthorizedKey[] | null;
  clock: Clock;
  openSession(channel: Channel): Session;
  /** Opens a TCP port of the workload, or rejects with why not. */
  openPort(host: string, port: number): Promise<Duplex>;
  /** Carries one forwarded connection to its end. */
  forward(channel: Channel, stream: Duplex): void;
  signedIn(): void;
  /** Called again and again while any channel is open. */
  used(): void;
};

/** RFC 4254, 5.1. */
const refusals = { prohibited: 1, connect_failed: 2, unknown_type: 3, shortage: 4 };
/** RFC 4253, 11.1. */
const reasons = { protocol_error: 2, by_application: 11, no_more_methods: 14 };
const not_forwarded =
  'einsora: ports of this machine cannot be opened from inside (-R): only -L and -D are there';

export class SshConnection {
  readonly #options: ConnectionOptions;
  readonly #transport: Transport;
  readonly #sign_in: SignIn;
  readonly #watch: Watch;
  readonly #channels = new Map<number, SshChannel>();
  readonly #sessions = new Map<number, Session>();
  readonly #over = Promise.withResolvers<void>();
  #changed = Promise.withResolvers<void>();
  /** Ports that are being opened. */
  #opening = 0;
  #takes_sessions = true;
  /** It was cut, and the client may still show why. */
  #is_ending = false;
  #is_over = false;
  #notice: string | null = null;

  constructor(options: ConnectionOptions) {
    const { socket, clock, keys, host_key } = options;
    this.#options = options;
    this.#watch = createWatch(clock, {
      isBusy: () => this.#channels.size + this.#opening > 0,
      ping: () => this.#transport.send.ping(),
      expired: (why) => this.cut(why),
      used: options.used,
    });
    this.#transport = createTransport({
      ...{ socket, host_key, handlers: this.#handlers() },
      heard: this.#watch.heard,
      rekeyed: this.#watch.rekeyed,
      ready: () => this.#wake(),
      failed: () => this.#abandon(reasons.protocol_error),
    });
    this.#sign_in = createSignIn(this.#transport.send, keys, {
      done: () => {
        this.#watch.signedIn();
        options.signedIn();
      },
      refused: () => this.#abandon(reasons.no_more_methods),
    });
    const gone = () => {
      this.#leave();
      socket.destroy();
    };
    // A client that stops sending has gone: none closes only one half.
    socket.once('close', gone).once('end', gone);
  }

  /** Resolves when all of it is over. */
  get closed(): Promise<void> {
    return this.#over.promise;
  }

  /** Begins to listen. Rejects where this machine cannot encrypt. */
  start(): Promise<void> {
    return this.#transport.start();
  }

  /**
   * Ends it, and says why on each of its sessions. The client has a moment to show that: what comes
   * together with a goodbye it drops.
   */
  cut(why: string): void {
    if (this.#is_ending) return;
    this.#is_ending = true;
    for (const [id, channel] of [...this.#channels]) {
      if (this.#sessions.has(id)) channel.sayLast(`\r\neinsora: ${why}\r\n`);
      channel.finish(null);
    }
    const end = () => this.#abandon(reasons.by_application);
    if (this.#channels.size === 0) end();
    else this.#options.clock.after(limits.ssh_last_words_ms, end);
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Whatever ended it: everything of it ends here. */
  #leave(): void {
    if (this.#is_over) return;
    this.#is_over = true;
    this.#watch.stop();
    for (const channel of [...this.#channels.values()]) channel.lost();
    this.#channels.clear();
    this.#sessions.clear();
    this.#wake();
    this.#over.resolve();
  }

  /** Says goodbye, and leaves whether or not it is heard. */
  #abandon(reason: number): void {
    if (this.#is_over) return;
    this.#leave();
    const { socket, clock } = this.#options;
    this.#transport.stop(reason);
    clock.after(limits.ssh_goodbye_ms, () => socket.destroy());
  }

  #of(id: number): SshChannel | null {
    const channel = this.#channels.get(id);
    if (channel === undefined) this.#abandon(reasons.protocol_error);
    return channel ?? null;
  }

  #refuse(info: OpenInfo, reason: number, why: string): void {
    this.#transport.send.channelOpenFail(info.sender, reason, why);
  }

  #accept(info: OpenInfo): { id: number; channel: SshChannel } {
    let id = 0;
    while (this.#channels.has(id)) id += 1;
    const { send, isCongested } = this.#transport;
    const line = {
      ...{ send, isCongested, changed: () => this.#changed.promise },
      freed: (freed: number) => {
        this.#channels.delete(freed);
        this.#sessions.delete(freed);
        if (this.#is_ending && this.#channels.size === 0) this.#abandon(reasons.by_application);
      },
    };
    const channel = new SshChannel(line, id, info);
    this.#channels.set(id, channel);
    send.channelOpenConfirm(info.sender, id, window_bytes, packet_bytes);
    return { id, channel };
  }

  #open(info: OpenInfo): void {
    const { type } = info;
    if (info.packetSize === 0) this.#abandon(reasons.protocol_error);
    else if (this.#is_ending) this.#refuse(info, refusals.prohibited, 'this connection is ending');
    else if (this.#channels.size + this.#opening >= limits.ssh_channels) {
      this.#refuse(info, refusals.shortage, `${limits.ssh_channels} channels are open already`);
    } else if (type === 'session' && this.#takes_sessions) this.#openSession(info);
    else if (type === 'direct-tcpip') this.#openPort(info);
    else if (type === 'direct-streamlocal@openssh.com') {
      this.#refuse(info, refusals.prohibited, 'sockets cannot be forwarded, TCP ports can');
    } else {
      const reason = type === 'session' ? refusals.prohibited : refusals.unknown_type;
      this.#refuse(info, reason, 'that is not done here');
    }
  }

  #openSession(info: OpenInfo): void {
    const { id, channel } = this.#accept(info);
    this.#sessions.set(id, this.#options.openSession(channel));
    if (this.#notice !== null) void channel.write(Buffer.from(`${this.#notice}\r\n`), 'stderr');
    this.#notice = null;
  }

  #openPort(info: OpenInfo): void {
    this.#opening += 1;
    this.#options.openPort(String(info.data.destIP), Number(info.data.destPort)).then(
      (stream) => {
        this.#opening -= 1;
        if (this.#is_over || this.#is_ending) stream.destroy();
        else this.#options.forward(this.#accept(info).channel, stream);
      },
      (error: Error) => {
        this.#opening -= 1;
        if (!this.#is_over) this.#refuse(info, refusals.connect_failed, error.message);
      },
    );
  }

  #global(name: string, wants_reply: boolean): void {
    if (name === 'no-more-sessions@openssh.com') this.#takes_sessions = false;
    if (name === 'tcpip-forward') this.#notice = not_forwarded;
    // Among them keepalives, whose answer is this, and -R.
    if (wants_reply) this.#transport.send.requestFailure();
  }

  #handlers(): MessageHandlers {
    /** Only what is said after signing in counts. */
    const inside = <A extends unknown[]>(work: (...args: A) => void) => {
      return (_: unknown, ...args: A) => {
        if (this.#is_over) return;
        if (this.#sign_in.isDone()) work(...args);
        else this.#abandon(reasons.protocol_error);
      };
    };
    return {
      DISCONNECT: () => this.#options.socket.destroy(),
      SERVICE_REQUEST: (_, name) => this.#sign_in.service(name),
      USERAUTH_REQUEST: (_, _user, service, method, data) => {
        if (!this.#is_over) this.#sign_in.attempt(service, method, data);
      },
      GLOBAL_REQUEST: inside((name, wants_reply) => this.#global(name, wants_reply)),
      CHANNEL_OPEN: inside((info) => this.#open(info)),
      CHANNEL_DATA: inside((id, data) => {
        if (this.#of(id)?.received(data) === false) this.#abandon(reasons.protocol_error);
      }),
      CHANNEL_EXTENDED_DATA: inside((id) => void this.#of(id)),
      CHANNEL_WINDOW_ADJUST: inside((id, bytes) => this.#of(id)?.granted(bytes)),
      CHANNEL_EOF: inside((id) => this.#of(id)?.ended()),
      CHANNEL_CLOSE: inside((id) => this.#of(id)?.closedByClient()),
      CHANNEL_REQUEST: inside((id, type, wants_reply, data) => {
        const is_granted = this.#sessions.get(id)?.request(type, data) ?? false;
        const channel = this.#of(id);
        if (wants_reply) channel?.answer(is_granted);
      }),
    };
  }
}
