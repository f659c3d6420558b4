/**
 * Refusals in OpenAI's shape: `{"error":{"message","type","param","code","request_id"}}`.
 *
 * Invariants: `error` is always an object, whatever the engine sent; `code` is a string or null;
 * each refusal of 500 and above says by header whether a client library should repeat it, because
 * those libraries repeat by themselves and would turn one outage into three times the load.
 */
export type Refusal = {
  status: number;
  message: string;
  code: string | null;
  /** Taken from the status where left out. */
  type?: string;
  param?: string | null;
  /** Waiting helps: sent as Retry-After. Without it, 409 and 500 and above say not to repeat. */
  retry_after_s?: number;
  headers?: Record<string, string>;
};

export type OpenAiError = {
  error: {
    message: string;
    type: string;
    param: string | null;
    code: string | null;
    request_id: string;
  };
};

export function errorBody(refusal: Refusal, request_id: string): OpenAiError {
  const { message, code, param = null } = refusal;
  const type = refusal.type ?? (refusal.status >= 500 ? 'server_error' : 'invalid_request_error');
  return { error: { message, type, param, code, request_id } };
}

/** The headers of a refusal, beside those of every answer. */
export function refusalHeaders({ status, retry_after_s, headers }: Refusal) {
  const waits = retry_after_s !== undefined;
  const is_final = !waits && (status >= 500 || status === 409);
  return {
    ...(waits ? { 'Retry-After': String(retry_after_s) } : {}),
    ...(is_final ? { 'X-Should-Retry': 'false' } : {}),
    ...headers,
  };
}

export const refusals = {
  invalidKey: {
    status: 401,
    message: 'The endpoint key is missing, wrong, expired or revoked.',
    code: 'invalid_api_key',
    headers: { 'WWW-Authenticate': 'Bearer' },
  },
  unknownPath: { status: 404, message: 'There is nothing under this path.', code: 'not_found' },
  notServed: {
    status: 404,
    message: 'This path of the OpenAI API is not served yet.',
    code: 'not_served',
  },
  notJson: {
    status: 415,
    message: 'The body must be plain JSON, with Content-Type: application/json.',
    code: 'unsupported_media_type',
  },
  slowBody: {
    status: 408,
    message: 'The body stopped arriving.',
    code: 'request_timeout',
    headers: { Connection: 'close' },
  },
  internal: { status: 500, message: 'Something went wrong in the gateway.', code: 'internal' },
  full: {
    status: 503,
    message: 'The gateway has more open requests than it takes.',
    code: 'too_many_requests',
    retry_after_s: 2,
  },
  shuttingDown: {
    status: 503,
    message: 'The gateway is stopping.',
    code: 'shutting_down',
    retry_after_s: 5,
  },
  engineUnreachable: {
    status: 502,
    message: 'The machine of this endpoint could not be reached.',
    code: 'engine_unreachable',
  },
  engineCut: {
    status: 502,
    message: 'The engine closed the connection before its answer was whole.',
    code: 'engine_cut',
  },
  engineUnfinished: {
    status: 502,
    message: 'The engine ended its answer without saying why it ended.',
    code: 'engine_unfinished',
  },
  engineAborted: {
    status: 502,
    message: 'The engine gave its answer up before it was whole.',
    code: 'engine_aborted',
  },
  engineGarbled: {
    status: 502,
    message: 'The engine sent what is no answer of this API.',
    code: 'engine_garbled',
  },
  engineTooMuch: {
    status: 502,
    message: 'The engine sent more in one piece than the gateway keeps.',
    code: 'engine_too_much',
  },
  engineSilent: {
    status: 504,
    message: 'The engine sent nothing for too long.',
    code: 'engine_silent',
  },
  tooLong: {
    status: 504,
    message: 'The request took longer than any may.',
    code: 'request_too_long',
  },
  endpointStopped: {
    status: 409,
    message: 'The endpoint was stopped meanwhile.',
    code: 'endpoint_stopped',
  },
  endpointGone: {
    status: 404,
    message: 'The endpoint is not there any more, or not for this key.',
    code: 'model_not_found',
    param: 'model',
  },
  clientStalled: {
    status: 408,
    message: 'The client took nothing for too long.',
    code: 'client_stalled',
  },
  clientLeft: { status: 499, message: 'The client left.', code: 'client_left' },
} as const satisfies Record<string, Refusal>;
