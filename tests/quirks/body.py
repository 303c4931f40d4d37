"""How a body arrives: lines, bytes, characters, and answers that are no stream."""

from __future__ import annotations

import json

from server import Answer, calls, delta, event, message, piece, plain, stream

from brain import Usage
from quirks.row import FULL, HALF_1, HALF_2, OK, lines, row, whole

TWO_LINES = 'data: {"choices":\r\ndata: ' + FULL[FULL.index("[") :] + "\r\n\r\n"

BODY = [
    row("CRLF", lines(f"data: {FULL}\r\n\r\ndata: [DONE]\r\n\r\n")),
    row("CR", lines(f"data: {FULL}\r\rdata: [DONE]\r\r")),
    row("comments", lines(f": OPENROUTER PROCESSING\n\n:\n\ndata: {FULL}\n\n: bye\n\ndata: [DONE]\n\n")),
    row("no blank after data:", lines(f"data:{FULL}\n\ndata:[DONE]\n\n")),
    row(
        "event, id and retry fields",
        lines(f"retry: 5\nid: 1\nevent: message\ndata: {FULL}\n\ndata: [DONE]\n\n"),
    ),
    row("empty events", lines(f"event: ping\n\ndata:\n\ndata: {FULL}\n\ndata: [DONE]\n\n")),
    row("an error event with nothing in it", lines(f"event: error\n\ndata: {FULL}\n\ndata: [DONE]\n\n")),
    row("byte order mark", lines(f"\ufeffdata: {FULL}\n\ndata: [DONE]\n\n")),
    row("blank lines first", lines(f"\n\r\n\ndata: {FULL}\n\ndata: [DONE]\n\n")),
    row("no [DONE]", stream(delta(OK, finish="stop"), done=False)),
    row("no blank line at the end", lines(f"data: {FULL}")),
    row("[DONE] without a blank line", lines(f"data: {FULL}\n\ndata: [DONE]")),
    row("JSON over two lines", lines('data: {"choices":\ndata: [' + FULL[FULL.index("[") + 1 :] + "\n\n")),
    row("text after [DONE]", lines(f"data: {FULL}\n\ndata: [DONE]\n\ndata: {FULL}\n\n")),
    row(
        "CRLF and JSON over two lines, every byte by itself",
        Answer(200, [bytes([b]) for b in TWO_LINES.encode()]),
    ),
    row(
        "every byte by itself",
        Answer(200, [bytes([b]) for b in event(delta("Grüße 😀", finish="stop"))]),
        text="Grüße 😀",
    ),
    row(
        "characters cut in two",
        Answer(
            200,
            [
                part.encode("latin-1")
                for part in (
                    'data: {"choices":[{"delta":{"content":"\xc3',
                    '\xbc"},"finish_reason":"stop"}]}\n\n',
                )
            ],
        ),
        text="ü",
    ),
    row(
        "raw line separators in a text",  # str.splitlines() would cut the JSON here
        lines('data: {"choices":[{"delta":{"content":"a\u2028b\u0085c"},"finish_reason":"stop"}]}\n\n'),
        text="a\u2028b\u0085c",
    ),
    row(
        "bytes that are not UTF-8",
        Answer(200, [b'data: {"choices":[{"delta":{"content":"a\xffb"},"finish_reason":"stop"}]}\n\n']),
        text="a\ufffdb",
    ),
    row("a stream said to be JSON", stream(delta(OK, finish="stop"), content_type="application/json")),
    row(
        "a stream said to be text",
        stream(delta(OK, finish="stop"), content_type="text/plain; charset=nonsense"),
    ),
    row("pair of surrogates split", whole(delta("Hi " + HALF_1), delta(HALF_2 + "!")), text="Hi 😀!"),
    row("split with an empty chunk between", whole(delta(HALF_1), delta(""), delta(HALF_2)), text="😀"),
    row("first half alone", whole(delta("a" + HALF_1), delta("b")), text="a\ufffdb"),
    row("second half alone", whole(delta("a" + HALF_2), delta("b")), text="a\ufffdb"),
    row("first half at the end", whole(delta("a" + HALF_1)), text="a\ufffd"),
    row(
        "split in the reasoning",
        whole(delta(reasoning=HALF_1), delta(reasoning=HALF_2), delta(OK)),
        reasoning="😀",
    ),
    row(
        "split in arguments",
        whole(calls(piece('{"q": "' + HALF_1, id="c1", name="look")), calls(piece(HALF_2 + '"}'))),
        text="",
        calls=[("look", {"q": "😀"})],
    ),
    row("plain JSON", plain(message(OK)), usage=Usage(10, 5), finish="stop"),
    row("plain JSON said to be text", plain(message(OK), content_type="text/plain")),
    row("plain JSON said to be a stream", plain(message(OK), content_type="text/event-stream")),
    row("plain JSON, indented", plain(json.dumps(message(OK), indent=2).encode())),
    row("plain JSON with a mark and blanks", plain(b"\xef\xbb\xbf \r\n" + json.dumps(message(OK)).encode())),
    row("plain JSON without finish reason", plain(message(OK, finish=None)), finish="stop"),
    row("plain JSON with reasoning", plain(message(OK, reasoning_content="Hm.")), reasoning="Hm."),
    row("plain JSON with think tags", plain(message("<think>Hm.</think>\n\n" + OK)), reasoning="Hm."),
    row(
        "plain JSON with calls",
        plain(message(None, "tool_calls", tool_calls=[piece("{}", id="c1", name="look")])),
        text="",
        calls=[("look", {})],
    ),
    row("plain JSON with empty choices", plain({"choices": []}), kind="empty"),
    row("plain JSON with choices: null", plain({"choices": None}), kind="empty"),
    row(
        "plain JSON, message: null",
        plain({"choices": [{"message": None, "finish_reason": "stop"}]}),
        kind="empty",
    ),
]
