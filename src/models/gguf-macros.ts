/**
 * Macros of a chat template that call themselves whatever is asked, at once or by way of others:
 * the engine's stack overflows while it loads.
 *
 * Invariants: a call below an `if` or a `for`, or in an expression with an `if` of its own, is none
 * that always happens; honest templates write out nested schemas so.
 */
import type { JinjaToken } from './gguf-jinja.ts';
import { must } from './validate-refusal.ts';

export class MacroCalls {
  /** What each macro always calls. */
  readonly #calls = new Map<string, Set<string>>();

  /** Notes the calls of a tag that always runs within `macro`. */
  note(macro: string, tokens: readonly JinjaToken[]): void {
    if (tokens.some(({ text }) => text === 'if' || text === 'and' || text === 'or')) return;
    const called = this.#calls.get(macro) ?? new Set();
    this.#calls.set(macro, called);
    tokens.forEach((token, index) => {
      const is_member = tokens[index - 1]?.text === '.';
      if (token.kind === 'word' && tokens[index + 1]?.text === '(' && !is_member) {
        called.add(token.text);
      }
    });
  }

  refuseEndless(): void {
    for (const macro of this.#calls.keys()) {
      const reached = new Set<string>();
      const waiting = [macro];
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        for (const called of this.#calls.get(next) ?? []) {
          must(called !== macro, 'template_recursion', () => `It is "${macro.slice(0, 100)}".`);
          if (!reached.has(called)) waiting.push(called);
          reached.add(called);
        }
      }
    }
  }
}
