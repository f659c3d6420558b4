/**
 * The parts of ssh2 that lie beneath its own server, which has no types for them: the transport
 * (ADR-0047). Exactly the pinned version is meant.
 */
declare module 'ssh2/lib/protocol/Protocol.js' {
  type Handler = import('./transport.ts').MessageHandlers;

  class Protocol {
    constructor(config: {
      server: true;
      ident: string;
      hostKeys: Record<string, unknown>;
      offer: {
        kex: string[];
        serverHostKey: string[];
        cs: { cipher: string[]; mac: string[]; compress: string[]; lang: string[] };
        sc: { cipher: string[]; mac: string[]; compress: string[]; lang: string[] };
      };
      onWrite(data: Buffer): void;
      onError(error: Error): void;
      onPacket(): void;
      onHandshakeComplete(): void;
      messageHandlers: Partial<Handler>;
    });
    start(): void;
    parse(chunk: Buffer, from: number, length: number): void;
    cleanup(): void;
    disconnect(reason: number): void;
    ping(): void;
    serviceAccept(name: string): void;
    authSuccess(): void;
    authFailure(methods: string[], partial?: boolean): void;
    authPKOK(algorithm: string, key: Buffer): void;
    requestSuccess(data?: Buffer | null): void;
    requestFailure(): void;
    channelOpenConfirm(remote: number, local: number, window: number, packet: number): void;
    channelOpenFail(remote: number, reason: number, description: string): void;
    channelSuccess(remote: number): void;
    channelFailure(remote: number): void;
    channelWindowAdjust(remote: number, bytes: number): void;
    channelData(remote: number, data: Buffer): void;
    channelExtData(remote: number, data: Buffer, type: number): void;
    channelEOF(remote: number): void;
    channelClose(remote: number): void;
    exitStatus(remote: number, code: number): void;
    exitSignal(remote: number, name: string, dumped: boolean, message: string): void;
    /** Set while keys are exchanged: what is sent meanwhile waits inside. */
    readonly _kexinit: Buffer | undefined;
  }
  export = Protocol;
}

declare module 'ssh2/lib/protocol/crypto.js' {
  const crypto: {
    /** Resolves when ciphers can be used. */
    readonly init: Promise<void>;
  };
  export = crypto;
}

declare module 'ssh2/lib/protocol/keyParser.js' {
  const parser: { parseKey(data: string): import('ssh2').ParsedKey | Error };
  export = parser;
}
