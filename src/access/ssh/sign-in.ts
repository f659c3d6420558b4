/**
 * Signing in to a workload over SSH. The tunnel has proved who it is, so `none` is enough, except
 * where the workload names its keys: then one of them must sign (ADR-0047).
 *
 * Invariants: tries are counted; a signature is over this very connection; SHA-1 is refused; the
 * user's name decides nothing.
 */
import { limits } from '../../contract/limits.ts';
import { type AuthorizedKey, isSameKey } from '../../core/ssh-key.ts';
import { isSignedBy, type PublicKeyTry, type Sender } from './transport.ts';

export type SignIn = {
  isDone(): boolean;
  service(name: string): void;
  attempt(service: string, method: string | undefined, data: unknown): void;
};

export function createSignIn(
  send: Sender,
  keys: AuthorizedKey[] | null,
  told: { done(): void; refused(): void },
): SignIn {
  let is_asked = false;
  let is_done = false;
  let tries = 0;

  function accept(): void {
    is_done = true;
    send.authSuccess();
    told.done();
  }

  function refuse(): void {
    tries += 1;
    if (tries > limits.ssh_sign_in_tries) told.refused();
    else send.authFailure(['publickey']);
  }

  function judgeKey(tried: PublicKeyTry): void {
    const { keyAlgo, key, hashAlgo } = tried;
    const known = keys?.find((one) => isSameKey(one, keyAlgo, key));
    // RSA without a hash by name would be signed with SHA-1.
    const is_sound = keyAlgo !== 'ssh-rsa' || hashAlgo !== undefined;
    if (known === undefined || !is_sound) refuse();
    else if (tried.signature === undefined) {
      const algorithm = hashAlgo === undefined ? keyAlgo : `rsa-sha2-${hashAlgo.slice(3)}`;
      send.authPKOK(algorithm, key);
      // Asking costs us something too.
      tries += 0.5;
    } else if (isSignedBy(known, tried)) accept();
    else refuse();
  }

  return {
    isDone: () => is_done,
    service(name) {
      const is_fine = !is_asked && name === 'ssh-userauth';
      is_asked = true;
      if (is_fine) send.serviceAccept(name);
      else told.refused();
    },
    attempt(service, method, data) {
      if (!is_asked || is_done || service !== 'ssh-connection') told.refused();
      else if (keys === null) accept();
      else if (method === 'publickey') judgeKey(data as PublicKeyTry);
      else refuse();
    },
  };
}
