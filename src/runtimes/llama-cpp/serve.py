"""Serves one model over a Unix socket by the llama.cpp server that the xllamacpp wheel carries.

Called as: python -I -S -B serve.py WHEEL_FOLDER SETTINGS, SETTINGS being one JSON object. A plain
folder on the search path is environment enough: the wheel needs nothing but the standard library.
Ends with 1 and one line on stderr where the model cannot be served, and at SIGTERM at once (143).
"""

import json
import os
import signal
import stat
import sys


def fail(why):
    # The engine's threads may still write: what they say goes nowhere, so that ours is the last line.
    # It begins with an end of line, for one of them may have come as far as the middle of its own.
    last = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.write(last, ("\neinsora: %s\n" % why).encode("utf-8", "replace"))
    os._exit(1)  # not sys.exit: threads of a half-started server must not hold the process up


def parameters(library, wanted):
    params = library.CommonParams()
    params.model.path = wanted["model"]
    params.model_alias = {wanted["alias"]}
    params.hostnames = [wanted["socket"]]
    params.n_ctx = wanted["context_tokens"]
    params.n_parallel = wanted["parallel"]
    params.kv_unified = False
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.n_threads_http = wanted["http_threads"]
    params.cache_ram_mib = wanted["prompt_cache_mib"]
    params.n_gpu_layers = 0
    # The sizes are the caller's: nothing is fitted to what the host seems to have.
    params.fit_params = False
    params.use_jinja = True
    params.warmup = True
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_metrics = True
    params.endpoint_props = False
    params.ui_mcp_proxy = False
    params.server_tools = []
    params.cors_origins = "localhost"
    params.cors_credentials = False
    if wanted["pooling"] is not None:
        params.embedding = True
        params.pooling_type = getattr(
            library.llama_pooling_type, "LLAMA_POOLING_TYPE_" + wanted["pooling"].upper()
        )
        # The whole text is one batch: models that look both ways cannot do with parts.
        params.n_batch = params.n_ubatch = wanted["context_tokens"] // wanted["parallel"]
    return params


def remove_old_socket(path):
    """A socket that an earlier life left behind is in the way of binding; anything else stays."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass


def main():
    folder, wanted = sys.argv[1], json.loads(sys.argv[2])
    # Loading holds the interpreter's lock, so a handler in Python would come too late.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.path.insert(0, folder)
    try:
        import xllamacpp
    except Exception as error:
        fail("the engine cannot be loaded: %s" % error)
    try:
        remove_old_socket(wanted["socket"])
        server = xllamacpp.Server(parameters(xllamacpp, wanted))
    except Exception as error:
        fail("the model cannot be served: %s" % error)
    print("einsora: serving at " + server.listening_address, flush=True)
    while True:
        signal.pause()


main()
