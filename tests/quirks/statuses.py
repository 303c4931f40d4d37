"""What a server answers instead of a reply."""

from __future__ import annotations

from server import Answer, error, plain, says

from quirks.row import HTML, OK, row

STATUSES = [
    row(
        "context: OpenAI",
        error(
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in "
            "9000 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
        ),
        kind="context_length",
        limit=8192,
        count=9000,
    ),
    row(
        "context: llama.cpp",
        error(
            400,
            "the request exceeds the available context size, try increasing it",
            type="exceed_context_size_error",
            code=400,
            n_prompt_tokens=9000,
            n_ctx=8192,
        ),
        kind="context_length",
        limit=8192,
        count=9000,
    ),
    row(
        "context: vLLM",
        plain(
            {
                "object": "error",
                "message": "This model's maximum context length is 8192 tokens. However, you "
                "requested 9500 tokens (9000 in the messages, 500 in the completion). Please reduce the "
                "length of the messages or completion.",
                "type": "BadRequestError",
                "code": 400,
            },
            400,
        ),
        kind="context_length",
        limit=8192,
        count=9000,
    ),
    row(
        "context: Ollama",
        error(400, "prompt too long; exceeded max context length by 808 tokens"),
        kind="context_length",
    ),
    row(
        "context: plain words",
        plain(b"The conversation is too long", 400, "text/plain"),
        kind="context_length",
    ),
    row("context: 500", error(500, "the request exceeds the available context size"), kind="context_length"),
    row(
        "context: 200",
        plain(
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "x",
                    "n_ctx": 4096,
                    "n_prompt_tokens": 5000,
                }
            }
        ),
        kind="context_length",
        limit=4096,
        count=5000,
    ),
    row(
        "context: more than a minute's tokens",
        error(429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."),
        kind="context_length",
        limit=30000,
        count=40000,
    ),
    row("401", error(401, "Incorrect API key"), kind="auth"),
    row("401 empty", Answer(401), kind="auth"),
    row("402", error(402, "Insufficient Balance"), kind="quota"),  # DeepSeek
    row("403", error(403, "Country not supported"), kind="auth", says="Country not supported"),
    row("403 moderation", error(403, "Your input was flagged by moderation"), kind="filtered"),  # OpenRouter
    row(
        "404 model",
        error(404, "The model `gpt-9` does not exist", code="model_not_found"),
        kind="not_found",
        says="model",
    ),
    row(
        "404 model, Ollama",
        error(404, 'model "gpt-9" not found, try pulling it first'),
        kind="not_found",
        says="model",
    ),
    row("404 route", plain(b"404 page not found", 404, "text/plain"), kind="not_found", says="no chat API"),
    row("404 route, FastAPI", plain({"detail": "Not Found"}, 404), kind="not_found", says="no chat API"),
    row("405", Answer(405), kind="not_found"),
    row(
        "400 for the model", error(400, "gpt-9 is not a valid model ID"), kind="not_found", says="model"
    ),  # OpenRouter
    row(
        "400 for the key",
        plain([{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], 400),
        kind="auth",
    ),  # Gemini
    row(
        "400 filtered", error(400, "The response was filtered", code="content_filter"), kind="filtered"
    ),  # Azure
    row("400 of any other kind", error(400, "Bad grammar"), kind="bad_request", says="Bad grammar"),
    row("408, then fine", Answer(408), says(OK), retried=1),
    row(
        "413",
        plain(b"<html><h1>413 Request Entity Too Large</h1></html>", 413, "text/html"),
        kind="context_length",
    ),
    row(
        "422",
        plain(
            {
                "detail": [
                    {
                        "loc": ["body", "messages"],
                        "msg": "value is not valid",
                        "input": {"tools": "unsupported"},
                    }
                ]
            },
            422,
        ),
        kind="bad_request",
        says="body.messages: value is not valid",
    ),
    row("429, then fine", error(429, "Rate limit reached"), says(OK), retried=1),
    row("429 in seconds", error(429, headers=[("Retry-After", "2")]), says(OK), retried=1),
    row(
        "429 with a date",
        error(429, headers=[("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")]),
        says(OK),
        retried=1,
    ),
    row("429 absurd", error(429, headers=[("Retry-After", "86400")]), kind="rate_limit", says="many hours"),
    row("429 for good", *[error(429)] * 3, kind="rate_limit", retried=2, says="3 tries"),
    row(
        "429 about tokens a minute", error(429, "Too many tokens, please wait"), says(OK), retried=1
    ),  # Bedrock
    row(
        "quota",
        error(429, "You exceeded your current quota", type="insufficient_quota", code="insufficient_quota"),
        kind="quota",
    ),
    row("500, then fine", error(500), says(OK), retried=1),
    row("500 for good", *[error(500, "GPU on fire")] * 3, kind="server", retried=2, says="GPU on fire"),
    row(
        "502 with HTML",
        *[plain(b"<html>Bad gateway</html>", 502, "text/html")] * 3,
        kind="server",
        retried=2,
        says="(502)",
    ),
    row(
        "503, then fine", error(503, "Loading model"), error(503, "Loading model"), says(OK), retried=2
    ),  # llama.cpp
    row("503 for good", *[Answer(503)] * 3, kind="server", retried=2, says="overloaded"),
    row("529, then fine", error(529, "Overloaded"), says(OK), retried=1),  # Anthropic
    row("error body is a string", plain("No luck", 400), kind="bad_request", says="No luck"),
    row("error is a string", plain({"error": "No luck"}, 400), kind="bad_request", says="No luck"),
    row("error body is empty", Answer(400), kind="bad_request"),
    row("error body is HTML", plain(HTML, 400, "text/html"), kind="bad_request"),
    row(
        "error body is not UTF-8",
        plain(b"\xff\xfe No luck \x80", 400, "text/plain"),
        kind="bad_request",
        says="No luck",
    ),
    row("error body of nonsense", plain({"error": [[None, {"x": [1]}]]}, 400), kind="bad_request"),
    row("200 with HTML", plain(HTML, 200, "text/html"), kind="server", says="web page"),
    row(
        "200 with HTML said to be a stream",
        plain(HTML, 200, "text/event-stream"),
        kind="server",
        says="web page",
    ),
    row("200 with text", plain(b"It works!", content_type="text/plain"), kind="server", says="It works!"),
    row("200 with nothing", *[Answer(200)] * 3, kind="empty", retried=2),
    row("200 with blanks", plain(b"\n\n"), says(OK), retried=1),
    row("200 with an error", plain({"error": {"message": "No luck"}}), kind="server", says="No luck"),
    row("200 with an error as text", plain({"error": "No luck"}), kind="server", says="No luck"),
    row(
        "200 with an error that names its status",
        plain({"error": {"message": "Who?", "code": 401}}),
        kind="auth",
    ),
    row("200 with a list", plain([1, 2]), kind="server"),
    row("200 with other JSON", plain({"status": "ok"}), kind="server"),
    row("200 with null", plain(b"null"), kind="server"),
    row("200 with bytes", plain(b"\xff\x00\x01"), kind="server"),
    row(
        "200 said to be compressed",
        *[Answer(200, [b"not gzip"], [("content-encoding", "gzip")])] * 3,
        kind="server",
        retried=2,
    ),
    row(
        "redirect elsewhere",
        Answer(307, (), [("Location", "http://127.0.0.1:9/v1")]),
        kind="not_found",
        says="127.0.0.1:9",
    ),
    row("redirect to nowhere", Answer(307), kind="not_found"),
    row("redirect to the right path", Answer(308, (), [("Location", "/v1/chat/completions/")]), says(OK)),
]
