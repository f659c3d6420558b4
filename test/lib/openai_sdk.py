"""Goes through the scenes of openai-scenes.ts with the `openai` package, and says what came of each.

Usage: openai_sdk.py BASE_URL KEY. Prints one JSON object: each check's name with null, or with what
went wrong.
"""
import asyncio
import json
import sys
import time
import traceback

import openai
from openai import AsyncOpenAI, OpenAI

url, key = sys.argv[1:3]
hello = "Hello, w\u00f6rld \U0001f642 of ours"
model = "smol"
client = OpenAI(base_url=url, api_key=key)
chat = client.chat.completions
checks = []


def check(function):
    checks.append(function)
    return function


def say(content):
    return {"model": model, "messages": [{"role": "user", "content": content}]}


def failure(kind, work):
    try:
        work()
    except openai.OpenAIError as error:
        assert isinstance(error, kind), f"{type(error).__name__}: {error}"
        return error
    raise AssertionError("it did not fail")


def nobody_holds(scene):
    chat.create(**say(f"after {scene}"), timeout=5)


@check
def a_chat_comes_whole_with_its_request_id():
    answer = chat.create(**say("hello"))
    assert answer.choices[0].message.content == hello
    assert answer.choices[0].finish_reason == "stop" and answer.object == "chat.completion"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 4)
    assert answer._request_id.startswith("r")
    raw = chat.with_raw_response.create(**say("hello"))
    assert raw.headers["x-request-id"].startswith("r")
    assert "class=cpu-1" in raw.headers["x-einsora-served-by"]
    assert raw.parse().choices[0].message.content == hello


@check
def a_stream_is_iterated_and_its_usage_comes_only_where_asked():
    chunks = list(chat.create(**say("hello"), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == hello
    assert all(chunk.usage is None for chunk in chunks)
    asked = chat.create(**say("hello"), stream=True, stream_options={"include_usage": True})
    *_, last = asked
    assert last.choices == [] and last.usage.total_tokens == 11


@check
def the_stream_helper_gives_events_and_the_final_chat():
    with chat.stream(**say("hello")) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == hello and len(deltas) > 3
    assert final.choices[0].message.content == hello


@check
def tool_calls_come_by_their_index():
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("weather", "clock")
    ]
    whole = chat.create(**say("tools"), tools=tools)
    with chat.stream(**say("tools"), tools=tools) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion()
    for answer in (whole, streamed):
        calls = answer.choices[0].message.tool_calls
        assert [call.id for call in calls] == ["call_1", "call_2"]
        assert [call.function.name for call in calls] == ["weather", "clock"]
        assert all(json.loads(call.function.arguments) == {"place": "K\u00f6ln"} for call in calls)
        assert answer.choices[0].finish_reason == "tool_calls"


@check
def each_refusal_is_an_error_of_its_class():
    cases = [
        ("bad", openai.BadRequestError, 400, "invalid_request_error"),
        ("long", openai.BadRequestError, 400, "context_length_exceeded"),
        ("odd", openai.UnprocessableEntityError, 422, None),
        ("oops", openai.InternalServerError, 500, "server_error"),
    ]
    for scene, kind, status, code in cases:
        for stream in (False, True):
            error = failure(kind, lambda: chat.create(**say(scene), stream=stream))
            assert (error.status_code, error.code) == (status, code), (error.status_code, error.code)
            assert error.request_id.startswith("r")
    unknown = failure(openai.NotFoundError, lambda: chat.create(**{**say("hello"), "model": "no"}))
    assert (unknown.code, unknown.param) == ("model_not_found", "model")
    stranger = OpenAI(base_url=url, api_key="ept_wrong")
    assert failure(openai.AuthenticationError, stranger.models.list).code == "invalid_api_key"


@check
def an_engine_that_loads_is_asked_again_after_the_time_it_told():
    began = time.monotonic()
    assert chat.create(**say("loading")).choices[0].message.content == hello
    assert time.monotonic() - began >= 1.95


@check
def a_stream_that_is_cut_raises():
    pieces = []

    def read():
        for chunk in chat.create(**say("cut"), stream=True):
            pieces.append(chunk.choices[0].delta.content or "")

    assert failure(openai.APIError, read).code == "engine_cut"
    assert "".join(pieces) == "so"


@check
def an_answer_that_is_no_stream_and_is_cut_is_an_error():
    error = failure(openai.InternalServerError, lambda: chat.create(**say("cut")))
    assert (error.status_code, error.code) == (502, "engine_cut")


@check
def a_timeout_of_the_client_ends_the_question():
    for stream in (False, True):
        once = client.with_options(max_retries=0, timeout=0.3)
        work = lambda: once.chat.completions.create(**say("silent"), stream=stream)
        failure(openai.APITimeoutError, work)
        nobody_holds("silent")


@check
def leaving_a_stream_ends_the_question():
    stream = chat.create(**say("endless"), stream=True)
    next(iter(stream))
    stream.close()
    nobody_holds("endless")
    with chat.with_streaming_response.create(**say("endless"), stream=True) as response:
        next(response.iter_bytes())
    nobody_holds("endless")


@check
def the_other_interfaces_answer():
    assert client.completions.create(model=model, prompt="hello").choices[0].text == "Hello, again"
    pieces = client.completions.create(model=model, prompt="hello", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "Hello, again"
    embedded = client.embeddings.create(model=model, input="hello")
    assert embedded.data[0].embedding == [0.5, -1.25, 3]
    assert client.responses.create(model=model, input="hello").output_text == hello
    with client.responses.stream(model=model, input="hello") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == hello
    assert "".join(deltas) == hello
    assert [one.id for one in client.models.list()] == [model]
    assert client.models.retrieve(model).owned_by == "einsora"
    failure(openai.NotFoundError, lambda: client.models.retrieve("no"))


@check
def the_async_client_streams_many_at_once_and_can_be_cancelled():
    async def talk():
        async with AsyncOpenAI(base_url=url, api_key=key) as many:

            async def one():
                stream = await many.chat.completions.create(**say("hello"), stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            assert set(await asyncio.gather(*(one() for _ in range(20)))) == {hello}

            async def on_and_on():
                stream = await many.chat.completions.create(**say("endless"), stream=True)
                async for _ in stream:
                    reached.set()

            reached = asyncio.Event()
            task = asyncio.create_task(on_and_on())
            await reached.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await many.chat.completions.create(**say("after endless"), timeout=5)

    asyncio.run(talk())


def result_of(function):
    try:
        function()
    except BaseException:
        return traceback.format_exc()
    return None


print(json.dumps({function.__name__.replace("_", " "): result_of(function) for function in checks}))
