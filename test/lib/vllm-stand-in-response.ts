/**
 * How vLLM 0.32 answers the responses API, as it was seen to.
 */
import { type Fields, promptTokens, type Reply, said } from './engine-stand-ins.ts';

export function vllmResponse(fields: Fields): Reply {
  const { words, tokens, finish_reason } = said(fields.max_output_tokens);
  const input_tokens = promptTokens({ prompt: fields.input });
  const text = words.join('');
  const item = { id: 'msg_1', role: 'assistant', type: 'message', phase: null };
  const content = [{ annotations: [], text, type: 'output_text', logprobs: null }];
  const done = { ...item, status: 'completed', content };
  const top = { id: 'resp_1', created_at: 1, model: 'smol', object: 'response' };
  const usage = {
    ...{ input_tokens, output_tokens: tokens, total_tokens: input_tokens + tokens },
    input_tokens_details: { cached_tokens: 0 },
  };
  const status = finish_reason === 'stop' ? 'completed' : 'incomplete';
  const whole = { ...top, status, output: [done], usage };
  if (fields.stream !== true) return { status: 200, body: whole };
  const started = { ...top, status: 'in_progress', output: [], usage: null };
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };
  const said_so_far: [string, Fields][] = [
    ['created', { response: started }],
    ['in_progress', { response: started }],
    ['output_item.added', { output_index: 0, item: { ...item, status: 'in_progress' } }],
    ...words.map((delta): [string, Fields] => ['output_text.delta', { ...place, delta }]),
    ['output_text.done', { ...place, text }],
    ['output_item.done', { output_index: 0, item: done }],
    ['completed', { response: whole }],
  ];
  return {
    events: said_so_far.map(([name, data], sequence_number) => {
      const type = `response.${name}`;
      return `event: ${type}\ndata: ${JSON.stringify({ ...data, sequence_number, type })}\n\n`;
    }),
  };
}
