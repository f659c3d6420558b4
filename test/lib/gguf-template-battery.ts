/**
 * Chat templates that must be refused, in otherwise good GGUF files.
 */
import { changed, withTemplate } from './gguf-changes.ts';
import { entry } from './gguf-writer.ts';

export function badTemplates(): [name: string, rule: string, bytes: Buffer][] {
  const deep = (count: number) => `{{ ${'('.repeat(count)}1${')'.repeat(count)} }}`;
  return [
    ['a template of 10 MB', 'template_size', withTemplate('x'.repeat(10_000_000))],
    ['a template that is no UTF-8', 'utf8', withTemplate(Buffer.from([0x80]))],
    ['200 nested parentheses', 'template_nesting', withTemplate(deep(200))],
    ['100,000 nested parentheses', 'template_nesting', withTemplate(deep(100_000))],
    ['nested lists', 'template_nesting', withTemplate(`{{ ${'['.repeat(101)} }}`)],
    ['nested blocks', 'template_nesting', withTemplate('{% if true %}'.repeat(101))],
    ['chained elif', 'template_nesting', withTemplate(`{% if a %}${'{%- elif a %}'.repeat(101)}`)],
    ['100,000 negations', 'template_tag', withTemplate(`{{ ${'not '.repeat(60_000)}a }}`)],
    ['100,000 additions', 'template_tag', withTemplate(`{{ 1${'+1'.repeat(100_000)} }}`)],
    ['an open tag', 'template_tag', withTemplate('{{ "never closed }}')],
    ['an open comment', 'template_tag', withTemplate('{# never closed')],
    [
      'a loop of 2·10^9',
      'template_number',
      withTemplate('{% for i in range(2000000000) %}{% endfor %}'),
    ],
    [
      'a loop of 5·10^5',
      'template_range',
      withTemplate('{% for i in range(0, 500_000) %}{% endfor %}'),
    ],
    ['a power', 'template_number', withTemplate('{{ 10 ** 9 }}')],
    ['a product', 'template_repeat', withTemplate("{{ 'a' * 1000 * 1000 * 1000 }}")],
    [
      'loops in loops',
      'template_range',
      withTemplate('{% for i in range(1000) %}'.repeat(3) + '{% endfor %}'.repeat(3)),
    ],
    [
      'loops in loops, hidden by an end of nothing',
      'template_range',
      withTemplate('{% for i in range(1000) %}{% endnothing %}'.repeat(3)),
    ],
    [
      'text doubled 40 times',
      'template_repeat',
      withTemplate("{% set s = 'a' %}{% for i in range(40) %}{% set s = s ~ s %}{% endfor %}"),
    ],
    [
      'text doubled in a namespace',
      'template_repeat',
      withTemplate("{%- set ns.s = ns.s + '' + ns.s -%}"),
    ],
    [
      'text doubled by way of another',
      'template_repeat',
      withTemplate('{% set a = b ~ b %}{% set b = a ~ a %}'),
    ],
    ['text times two', 'template_repeat', withTemplate('{% set s = s * 2 %}')],
    [
      'a bad template of another name',
      'template_number',
      changed(entry.string('tokenizer.chat_template.tools', '{{ 99999999999 }}')),
    ],
  ];
}
