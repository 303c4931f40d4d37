"""What a server refuses, and gets along without."""

from __future__ import annotations

from server import error, message, plain, says

from quirks.row import OK, row

REFUSALS = [
    row(
        "stream_options",
        error(400, "Unrecognized request argument supplied: stream_options"),
        says(OK),
        retried=1,
        without="stream_options",
    ),
    row(
        "stream_options, as a validation error",  # Mistral, vLLM
        plain(
            {
                "message": {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "stream_options", "include_usage"],
                            "msg": "Extra inputs are not permitted",
                            "input": True,
                        }
                    ]
                }
            },
            422,
        ),
        says(OK),
        retried=1,
        without="stream_options",
    ),
    row(
        "tools: Ollama",
        error(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        says(OK),
        retried=1,
        without="tools",
    ),
    row(
        "tools: vLLM",
        error(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        says(OK),
        retried=1,
        without="tools",
    ),
    row(
        "tools: llama.cpp",
        error(500, "tools param requires --jinja flag"),
        says(OK),
        retried=1,
        without="tools",
    ),
    row("tools: old llama.cpp", error(500, "Unsupported param: tools"), says(OK), retried=1, without="tools"),
    row(
        "tools: OpenRouter",
        error(404, "No endpoints found that support tool use."),
        says(OK),
        retried=1,
        without="tools",
    ),
    row(
        "tools: OpenAI",
        error(
            400,
            "Unsupported parameter: 'tools' is not supported with this model.",
            code="unsupported_parameter",
            param="tools",
        ),
        says(OK),
        retried=1,
        without="tools",
    ),
    row(
        "max_tokens",  # o1 and later
        error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            code="unsupported_parameter",
            param="max_tokens",
        ),
        says(OK),
        retried=1,
        without="max_tokens",
    ),
    row(
        "max_tokens under either name",
        error(400, "Unsupported parameter: 'max_tokens'"),
        error(400, "Unsupported parameter: 'max_completion_tokens'; use 'max_tokens'"),
        says(OK),
        retried=2,
        without="max_completion_tokens",
    ),
    row(
        "stream",
        error(
            400,
            "Unsupported value: 'stream' does not support true with this model.",
            param="stream",
            code="unsupported_value",
        ),
        plain(message(OK)),
        retried=1,
        without="stream",
    ),  # o1
    row(
        "two at once",
        error(400, "Unknown fields: stream_options, tools"),
        error(400, "Unknown field: tools"),
        says(OK),
        retried=2,
        without="tools",
    ),
    row(
        "what it refuses without us sending it",
        error(400, "Unsupported parameter: 'temperature'"),
        kind="bad_request",
        says="temperature",
    ),
    row(
        "tools again and again",
        *[error(400, "this model does not support tools")] * 2,
        kind="bad_request",
        retried=1,
    ),
    row(
        "too much asked for",
        error(400, "max_tokens is too large: 9000. This model supports at most 4096 completion tokens"),
        kind="bad_request",
    ),
]
