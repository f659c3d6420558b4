/**
 * Static rules for chat templates. The engine parses a template by recursion and runs it while it
 * loads, so that one can overflow its stack, hold it for ever or fill the memory.
 *
 * Invariants: refuses nesting, literal loops and literal or self-made growth out of bounds. It does
 * not decide what a program computes: a loop built from values still needs the engine's deadline
 * and memory cap.
 */
import { type JinjaToken, jinjaTags } from './gguf-jinja.ts';
import { gguf_limits as limits } from './gguf-limits.ts';
import { MacroCalls } from './gguf-macros.ts';
import { must } from './validate-refusal.ts';

/** A block that is open: what it adds to the depth, and how often it runs its inside. */
type Block = {
  depth: number;
  rounds: number;
  /** The macro that it is, null for any other block. */
  macro: string | null;
};

/** Which names each assigned name is made of, and which of them twice. */
type Assignments = Map<string, { parts: Set<string>; doubled: Set<string> }>;

const openers = new Set(
  'for if macro call filter block autoescape with generation trans raw'.split(' '),
);
const joiners = new Set(['+', '~']);
/** Words that end a chain of joined text. */
const chain_ends = new Set(['if', 'else', 'and', 'or', 'in', 'is', 'not']);

export function checkTemplate(template: string): void {
  const blocks: Block[] = [];
  const assignments: Assignments = new Map();
  const macros = new MacroCalls();
  for (const tokens of jinjaTags(template)) {
    checkNumbers(tokens);
    const rounds = largestRange(tokens);
    const name = tokens[0]?.text === '-' || tokens[0]?.text === '+' ? tokens[1] : tokens[0];
    trackBlocks(blocks, name?.text ?? '', tokens, rounds);
    if (name?.text === 'set') noteAssignment(assignments, tokens);
    // What stands below another block of the macro may not run at all.
    const macro = blocks.at(-1)?.macro ?? null;
    if (macro !== null && name?.text !== 'macro') macros.note(macro, tokens);
  }
  checkGrowth(assignments);
  macros.refuseEndless();
}

function trackBlocks(blocks: Block[], name: string, tokens: readonly JinjaToken[], rounds: number) {
  const opens = openers.has(name) || (name === 'set' && !tokens.some(({ text }) => text === '='));
  if (opens) {
    const at = tokens.findIndex(({ text }) => text === name);
    const macro = name === 'macro' ? (tokens[at + 1]?.text ?? null) : null;
    blocks.push({ depth: 1, rounds: name === 'for' ? Math.max(1, rounds) : 1, macro });
  }
  // What ends no block known here must not seem to end the one around it.
  else if (name === 'endset' || (name.startsWith('end') && openers.has(name.slice(3))))
    blocks.pop();
  // The engine reads an `elif` as an `if` inside the one before.
  const last = blocks.at(-1);
  if (name === 'elif' && last) last.depth += 1;
  const depth = blocks.reduce((sum, block) => sum + block.depth, 0);
  must(depth <= limits.template_blocks, 'template_nesting', () => `It opens ${depth} blocks.`);
  const product = blocks.reduce((all, block) => all * block.rounds, 1);
  must(product <= limits.template_rounds, 'template_range', () => `It runs ${product} rounds.`);
}

/** Refuses literal numbers, and their products, that no template needs. */
function checkNumbers(tokens: readonly JinjaToken[]): void {
  let product = 1;
  tokens.forEach((token, index) => {
    const before = tokens[index - 1]?.text;
    if (token.kind === 'number') {
      const value = numberIn(token);
      must(value <= limits.template_number, 'template_number', () => `It is ${token.text}.`);
      product = before === '*' || before === '**' ? product * value : value;
      must(product <= limits.template_number, 'template_repeat', () => `${product} times.`);
      must(before !== '**', 'template_number', () => `It raises to the power ${token.text}.`);
    } else if (token.text !== '*' && token.text !== '**') {
      if (before !== '*') product = 1;
    }
  });
}

/** The most rounds of a `range` of literals in this tag; 0 without one. */
function largestRange(tokens: readonly JinjaToken[]): number {
  let most = 0;
  tokens.forEach((token, index) => {
    if (token.text !== 'range' || tokens[index + 1]?.text !== '(') return;
    const found: number[] = [];
    for (let at = index + 2; at < tokens.length; at += 1) {
      const argument = tokens[at];
      if (argument === undefined || argument.text === ')') break;
      if (argument.kind === 'number') {
        found.push(tokens[at - 1]?.text === '-' ? -numberIn(argument) : numberIn(argument));
      }
    }
    const [first = 0, second] = found;
    const rounds = second === undefined ? first : Math.abs(second - first);
    must(rounds <= limits.template_rounds, 'template_range', () => `It runs ${rounds} rounds.`);
    most = Math.max(most, rounds);
  });
  return most;
}

/** Reads `set target = expression`; text that contains a name twice doubles what it holds. */
function noteAssignment(assignments: Assignments, tokens: readonly JinjaToken[]): void {
  const equals = tokens.findIndex(({ text }) => text === '=');
  const start = tokens.findIndex(({ text }) => text === 'set') + 1;
  if (equals < start) return;
  const target = tokens
    .slice(start, equals)
    .map(({ text }) => text)
    .join('');
  const known = assignments.get(target) ?? { parts: new Set(), doubled: new Set() };
  assignments.set(target, known);
  let chain = new Set<string>();
  for (let at = equals + 1; at < tokens.length; ) {
    const token = tokens[at];
    if (token === undefined) break;
    if (token.text === ',' || chain_ends.has(token.text)) chain = new Set();
    if (token.kind !== 'word' || chain_ends.has(token.text)) {
      at += 1;
      continue;
    }
    const path = pathAt(tokens, at);
    const around = [tokens[at - 1]?.text, tokens[path.end]?.text];
    if (around.some((text) => text === '*')) known.doubled.add(path.text);
    if (around.some((text) => joiners.has(text ?? '')) && chain.has(path.text)) {
      known.doubled.add(path.text);
    }
    chain.add(path.text);
    known.parts.add(path.text);
    at = path.end;
  }
}

/** A name with its members: `ns.text`, `message['content']`. */
function pathAt(tokens: readonly JinjaToken[], start: number): { text: string; end: number } {
  let end = start + 1;
  for (;;) {
    if (tokens[end]?.text === '.') end += 2;
    else if (tokens[end]?.text === '[' && tokens[end + 2]?.text === ']') end += 3;
    else break;
  }
  const text = tokens
    .slice(start, end)
    .map((token) => token.text)
    .join('');
  return { text, end };
}

/** Refuses a name that is doubled into itself, at once or by way of one other name. */
function checkGrowth(assignments: Assignments): void {
  for (const [target, { doubled }] of assignments) {
    for (const name of doubled) {
      const grows = name === target || assignments.get(name)?.parts.has(target) === true;
      must(!grows, 'template_repeat', () => `"${target}" holds "${name}" twice.`);
    }
  }
}

function numberIn(token: JinjaToken): number {
  const value = Number(token.text.replaceAll('_', ''));
  return Number.isNaN(value) ? 0 : value;
}
