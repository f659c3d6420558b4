/**
 * Values of options, read strictly: what is not understood is a usage error, never a default.
 */
import { InvalidArgumentError } from 'commander';

/** A whole number of at least 1. */
export function parseCount(text: string): number {
  return wholeNumber(text, 1, Number.MAX_SAFE_INTEGER);
}

/** What another one reads, or `none`, which lifts a limit. */
export function orNone(parse: (text: string) => number): (text: string) => number | 'none' {
  return (text) => (text === 'none' ? text : parse(text));
}

/** A whole number of at least 0. */
export function parseCountOrZero(text: string): number {
  return wholeNumber(text, 0, Number.MAX_SAFE_INTEGER);
}

export function parsePort(text: string): number {
  return wholeNumber(text, 0, 65_535);
}

/** A number of at least 0, with or without a fraction. */
export function parseAmount(text: string): number {
  if (!/^\d+(?:\.\d+)?$/.test(text)) throw new InvalidArgumentError('Give a number.');
  return Number(text);
}

const unit_ms = { ms: 1, s: 1000, m: 60_000, h: 3600_000, d: 24 * 3600_000 } as const;

/** A length of time as milliseconds: 90 or 90s, 500ms, 10m, 2h, 30d. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text);
  if (match === null) throw new InvalidArgumentError('Give a time such as 90s, 10m, 2h or 30d.');
  return Number(match[1]) * unit_ms[(match[2] ?? 's') as keyof typeof unit_ms];
}

const unit_bytes = {
  '': 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
} as const;

const short_units = { k: 'KiB', m: 'MiB', g: 'GiB', t: 'TiB' } as const;

/** An amount of memory as bytes: 4GiB, 1.5GiB, 512MiB, 8GB, 20g (as GiB), 2147483648. */
export function parseSize(text: string): number {
  const whole = text.replace(/(?<=\d)[kmgt]$/i, (letter) => {
    return short_units[letter.toLowerCase() as keyof typeof short_units];
  });
  const match = /^(\d+(?:\.\d+)?)([KMGT]i?B)?$/.exec(whole);
  const bytes = Math.floor(
    Number(match?.[1]) * unit_bytes[(match?.[2] ?? '') as keyof typeof unit_bytes],
  );
  if (!Number.isSafeInteger(bytes)) {
    throw new InvalidArgumentError('Give a size such as 4GiB, 512MiB or 8GB.');
  }
  return bytes;
}

function wholeNumber(text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most) {
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `${least} to ${most}`;
    throw new InvalidArgumentError(`Give a whole number ${range}.`);
  }
  return value;
}
