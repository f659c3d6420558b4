/**
 * The text of the fence: an nftables ruleset that keeps containers in the internet, and out of the
 * machine and its local networks (ADR-0050).
 *
 * Invariants: pure; one table of our own, replaced as a whole in one transaction; a packet of a
 * guest that no rule lets through to a local place is dropped whatever Docker's rules say, and what
 * is let through is still judged by them; nothing that the machine itself sends or gets is touched.
 */

/** An address and TCP port of this machine that guests may call: the gateway's relay. */
export type Door = { address: string; port: number };

export type FencedNetwork = {
  /** Its interface on the machine. */
  bridge: string;
  door: Door | null;
};

export type FenceFacts = {
  table: string;
  networks: readonly FencedNetwork[];
  /** IPv4 addresses that the engine sends its guests' DNS questions to. */
  resolvers: readonly string[];
  /** IPv4 networks that this machine stands in itself, public ones too. */
  near: readonly string[];
  /** The owner lets guests into the local networks; never into the machine itself. */
  allow_lan: boolean;
};

/** Counters of the table: what was dropped on its way to elsewhere, to here, and by the proof. */
export const counters = { passing: 'passing', arriving: 'arriving', proof: 'proof' } as const;
/** Datagrams to this port of the machine prove that the rules see the packets of a guest. */
export const proof_port = 9;

/** Before the priority `filter`, at which Docker's chains stand. */
const priority = 'filter - 10';

/** No place on the internet: this host, metadata services, carriers' networks, multicast. */
const never = [
  '0.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
export const private_ranges = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'];

export function fenceRules(facts: FenceFacts): string {
  const { table, networks } = facts;
  const blocked = [...never, ...(facts.allow_lan ? [] : [...private_ranges, ...facts.near])];
  return [
    // Named before it is deleted, so that it makes no difference whether it was there.
    `table inet ${table}`,
    `delete table inet ${table}`,
    `table inet ${table} {`,
    ...setOf('local4', 'flags interval; auto-merge;', blocked),
    ...setOf('resolvers4', '', facts.resolvers),
    ...Object.values(counters).map((name) => `  counter ${name} { }`),
    '  chain passing {',
    `    type filter hook forward priority ${priority}; policy accept;`,
    ...networks.flatMap(passing),
    '  }',
    '  chain arriving {',
    `    type filter hook input priority ${priority}; policy accept;`,
    ...networks.flatMap(arriving),
    '  }',
    ...networks.flatMap(guest),
    '}',
    '',
  ].join('\n');
}

/** What undoes it; no error where nothing is there. */
export function noFence(table: string): string {
  return `table inet ${table}\ndelete table inet ${table}\n`;
}

function setOf(name: string, flags: string, elements: readonly string[]): string[] {
  const unique = [...new Set(elements)].sort();
  const list = unique.length === 0 ? [] : [`    elements = { ${unique.join(', ')} }`];
  const lines = flags === '' ? [] : [`    ${flags}`];
  return [`  set ${name} {`, '    type ipv4_addr;', ...lines, ...list, '  }'];
}

/** Through the machine. Bridged packets come here too: `br_netfilter` sends them. */
function passing({ bridge }: FencedNetwork): string[] {
  const drop = `counter name ${counters.passing} drop`;
  return [
    `    iifname "${bridge}" oifname "${bridge}" ${drop}`,
    // Nobody else calls a guest: the machine itself does, and its packets do not pass here.
    `    oifname "${bridge}" ct state established,related accept`,
    `    oifname "${bridge}" ${drop}`,
    `    iifname "${bridge}" jump ${guestChain(bridge)}`,
  ];
}

/** To the machine itself, under whichever of its addresses. */
function arriving({ bridge, door }: FencedNetwork): string[] {
  const from = `    iifname "${bridge}"`;
  const drop = `counter name ${counters.arriving} drop`;
  const open =
    door === null ? [] : [`${from} ip daddr ${door.address} tcp dport ${door.port} accept`];
  return [
    `${from} ct state established,related ct direction reply accept`,
    `${from} udp dport ${proof_port} counter name ${counters.proof} drop`,
    ...open,
    `${from} ${toResolver}`,
    `${from} ${drop}`,
  ];
}

/** What a guest sends elsewhere. Judged packet by packet: what began unfenced does not go on. */
function guest({ bridge }: FencedNetwork): string[] {
  const drop = `counter name ${counters.passing} drop`;
  return [
    `  chain ${guestChain(bridge)} {`,
    '    ct state established,related ct direction reply accept',
    // Our networks have no IPv6 of their own, so that none of its many local forms is missed.
    `    meta nfproto ipv6 ${drop}`,
    `    ${toResolver}`,
    `    ip daddr @local4 ${drop}`,
    '  }',
  ];
}

const toResolver = 'ip daddr @resolvers4 meta l4proto { tcp, udp } th dport 53 accept';

function guestChain(bridge: string): string {
  return `from_${bridge}`;
}
