/**
 * Refusals in OpenAI's shape: `{"error":{"message","type","param","code","request_id"}}`.
 *
 * Invariants: `error` is always an object, whatever the engine sent; `code` is a string or null;
 * each refusal of 500 and above says by header whether a client library should repeat it, because
 * those libraries repeat by themselves and would turn one outage into three times the load.
 */
import type { ServerResponse } from 'node:http';

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

/** Answers with a refusal. Nothing may have been sent yet. Returns the bytes of the body. */
export function sendRefusal(
  response: ServerResponse,
  refusal: Refusal,
  request_id: string,
  body: boolean,
): number {
  const text = Buffer.from(JSON.stringify(errorBody(refusal, request_id)));
  const { retry_after_s, status } = refusal;
  if (retry_after_s !== undefined) response.setHeader('Retry-After', String(retry_after_s));
  else if (status >= 500 || status === 409) response.setHeader('X-Should-Retry', 'false');
  for (const [name, value] of Object.entries(refusal.headers ?? {}))
    response.setHeader(name, value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
    'Cache-Control': 'no-store',
  });
  response.end(body ? text : undefined);
  return body ? text.length : 0;
}

const engine_codes: Record<string, string> = {
  exceed_context_size_error: 'context_length_exceeded',
};

/**
 * An engine's refusal in OpenAI's shape. `{"error":"text"}`, `{"detail":…}` and no JSON at all
 * occur. What would blame the client for our own doing (the engine's key, a path it lacks)
 * becomes 502.
 */
export function refusalOfEngine(status: number, body: Uint8Array): Refusal {
  const { message, type, param } = readEngineError(body);
  if (status === 503) {
    return {
      status,
      message: message ?? 'The engine is busy.',
      code: 'not_ready',
      retry_after_s: 2,
    };
  }
  const ours = status < 400 || [401, 403, 404, 405].includes(status);
  if (ours || message === null) {
    const message = `The engine answered with status ${status}, which the gateway cannot use.`;
    const passed = ours || status > 599 ? 502 : status;
    return { status: passed, message, code: 'engine_error' };
  }
  const code = type === null ? null : (engine_codes[type] ?? type);
  return { status, message, code, param, ...(type === null ? {} : { type }) };
}

function readEngineError(body: Uint8Array) {
  const found = { message: null, type: null, param: null };
  const parsed = parse(body);
  if (!isRecord(parsed)) return found;
  const error = parsed.error ?? parsed.detail;
  if (!isRecord(error)) return { ...found, message: textOf(error) };
  return {
    message: textOf(error.message),
    type: textOf(error.type),
    param: textOf(error.param),
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
  engineSilent: {
    status: 504,
    message: 'The engine sent nothing for too long.',
    code: 'engine_silent',
  },
} as const satisfies Record<string, Refusal>;
